// Calls the service for invoices for each order with Watermill. An order goes to the poison queue after its last retry.
package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/IBM/sarama"
	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill-kafka/v3/pkg/kafka"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"
)

var logger = watermill.NewStdLogger(false, false)

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func bill(order *message.Message) error {
	answer, err := http.Post(os.Getenv("INVOICES_URL"), "application/json", bytes.NewReader(order.Payload))
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("no invoice: status %s", answer.Status)
	}
	return nil
}

func main() {
	brokers, config := []string{os.Getenv("KAFKA_BOOTSTRAP_SERVERS")}, kafka.DefaultSaramaSubscriberConfig()
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	subscriber := must(kafka.NewSubscriber(kafka.SubscriberConfig{
		Brokers: brokers, Unmarshaler: kafka.DefaultMarshaler{}, OverwriteSaramaConfig: config, ConsumerGroup: "billing",
	}, logger))
	publisher := must(kafka.NewPublisher(kafka.PublisherConfig{Brokers: brokers, Marshaler: kafka.DefaultMarshaler{}}, logger))

	router := must(message.NewRouter(message.RouterConfig{}, logger))
	retry := middleware.Retry{MaxRetries: 10, InitialInterval: 10 * time.Millisecond, Logger: logger}
	poisonQueue := must(middleware.PoisonQueue(publisher, "dead-letters"))
	router.AddMiddleware(poisonQueue, retry.Middleware)
	router.AddConsumerHandler("billing", "orders", subscriber, bill)
	if err := router.Run(context.Background()); err != nil {
		panic(err)
	}
}
