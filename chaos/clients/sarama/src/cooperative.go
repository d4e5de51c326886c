//go:build cooperative

package main

import "github.com/IBM/sarama"

func init() {
	strategies[sarama.CooperativeStickyBalanceStrategyName] = sarama.NewBalanceStrategyCooperativeSticky
}
