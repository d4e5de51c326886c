package main

import (
	"fmt"
	"hash/crc32"
	"strings"
)

// Positions in the identity at the start of the value of each record; see chaos.ledger.record.
const (
	producerAt    = 13
	incarnationAt = 34
	seqAt         = 39
	timeAt        = 52
	crcAt         = 69
	headerBytes   = 78
)

// Identity is the origin of a record.
type Identity struct {
	producer                 string
	incarnation, seq, sentUs int64
}

// identityOf returns the identity in a value; false for a null, foreign or truncated value.
func identityOf(value []byte) (Identity, bool) {
	if len(value) < headerBytes || string(value[:3]) != "AS1" {
		return Identity{}, false
	}
	found := Identity{
		producer:    strings.TrimRight(string(value[producerAt:incarnationAt-1]), " "),
		incarnation: digits(value[incarnationAt : incarnationAt+4]),
		seq:         digits(value[seqAt : seqAt+12]),
		sentUs:      digits(value[timeAt : timeAt+16]),
	}
	return found, found.incarnation >= 0 && found.seq >= 0 && found.sentUs >= 0
}

func digits(text []byte) int64 {
	var number int64
	for _, char := range text {
		if char < '0' || char > '9' {
			return -1
		}
		number = 10*number + int64(char-'0')
	}
	return number
}

// values makes the values of one incarnation of a client.
type values struct {
	head    string
	payload []byte
}

func newValues(spec *Spec) values {
	const pattern = "abcdefghijklmnopqrstuvwxyz0123456789"
	payload := make([]byte, max(0, spec.ValueSize-headerBytes))
	for i := range payload {
		payload[i] = pattern[i%len(pattern)]
	}
	return values{fmt.Sprintf("AS1 %s %-20s %04d ", spec.RunToken, spec.Client, spec.Incarnation), payload}
}

// of returns the value of a record. The CRC is that of key, header and payload.
func (v values) of(seq, sentUs int64, key []byte) []byte {
	value := make([]byte, 0, headerBytes+len(v.payload))
	value = fmt.Appendf(value, "%s%012d %016d ", v.head, seq, sentUs)
	sum := crc32.ChecksumIEEE(key)
	sum = crc32.Update(sum, crc32.IEEETable, value)
	sum = crc32.Update(sum, crc32.IEEETable, v.payload)
	return append(fmt.Appendf(value, "%08x ", sum), v.payload...)
}

// keyNumber returns the key of a seq: spread by the seed, and the same in every incarnation.
func keyNumber(seq, seed uint64, count int) int {
	x := seq + seed<<32
	x = (x ^ x>>30) * 0xBF58476D1CE4E5B9 // the finalizer of splitmix64
	x = (x ^ x>>27) * 0x94D049BB133111EB
	return int((x ^ x>>31) % uint64(count))
}
