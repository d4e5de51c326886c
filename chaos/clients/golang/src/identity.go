package main

import (
	"bytes"
	"fmt"
	"hash/crc32"
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
	producer                 *string
	incarnation, seq, sentUs int64
}

// identities reads identities. Records of one producer share its name.
type identities struct{ producer *string }

// of returns the identity in a value; false for a null, foreign or truncated value.
func (i *identities) of(value []byte) (Identity, bool) {
	if len(value) < headerBytes || string(value[:3]) != "AS1" {
		return Identity{}, false
	}
	name := bytes.TrimRight(value[producerAt:incarnationAt-1], " ")
	if i.producer == nil || *i.producer != string(name) {
		producer := string(name)
		i.producer = &producer
	}
	found := Identity{
		producer:    i.producer,
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

// values makes the values of one incarnation of a client. Many of them are parts of one allocation.
type values struct{ template, free []byte }

// sharedBytes is the size of an allocation for many values.
const sharedBytes = 1 << 15

func newValues(spec *Spec) values {
	const pattern = "abcdefghijklmnopqrstuvwxyz0123456789"
	template := make([]byte, max(headerBytes, spec.ValueSize))
	for i := range template[headerBytes:] {
		template[headerBytes+i] = pattern[i%len(pattern)]
	}
	copy(template, fmt.Sprintf("AS1 %s %-20s %04d ", spec.RunToken, spec.Client, spec.Incarnation))
	for _, at := range []int{seqAt + 12, timeAt + 16, headerBytes - 1} {
		template[at] = ' '
	}
	return values{template: template}
}

// of returns the value of a record. The CRC covers key, header and payload.
func (v *values) of(seq, sentUs int64, key []byte) []byte {
	size := len(v.template)
	if len(v.free) < size {
		v.free = make([]byte, max(size, sharedBytes))
	}
	value := v.free[:size:size]
	v.free = v.free[size:]
	copy(value, v.template)
	putDigits(value[seqAt:seqAt+12], seq)
	putDigits(value[timeAt:timeAt+16], sentUs)
	sum := crc32.ChecksumIEEE(key)
	sum = crc32.Update(sum, crc32.IEEETable, value[:crcAt])
	sum = crc32.Update(sum, crc32.IEEETable, value[headerBytes:])
	for i := range 8 {
		value[crcAt+i] = "0123456789abcdef"[sum>>(28-4*i)&15]
	}
	return value
}

// putDigits fills text with a number, and with zeros before it.
func putDigits(text []byte, number int64) {
	for i := len(text) - 1; i >= 0; i-- {
		text[i] = byte('0' + number%10)
		number /= 10
	}
}

// keyNumber returns the key of a seq: spread by the seed, and the same in every incarnation.
func keyNumber(seq, seed uint64, count int) int {
	x := seq + seed<<32
	x = (x ^ x>>30) * 0xBF58476D1CE4E5B9 // the finalizer of splitmix64
	x = (x ^ x>>27) * 0x94D049BB133111EB
	return int((x ^ x>>31) % uint64(count))
}
