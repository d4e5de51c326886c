package main

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Kafka's protocol, as far as commits need it: OffsetCommit in the versions 2 to 8, which is all that sarama sends.
const (
	offsetCommit     = 8
	firstFlexible    = 8 // version from which on lengths are varints and fields have tags (KIP-482)
	oldestCommit     = 2
	newestCommit     = 8
	requestHeadBytes = 8 // API key, version and correlation id
)

var errShort = errors.New("the message ends early")

// decoder reads a message; the first problem stays in err.
type decoder struct {
	rest     []byte
	flexible bool
	err      error
}

func (d *decoder) take(count int) []byte {
	if d.err == nil && (count < 0 || count > len(d.rest)) {
		d.err = errShort
	}
	if d.err != nil {
		return make([]byte, 8)
	}
	taken := d.rest[:count]
	d.rest = d.rest[count:]
	return taken
}

func (d *decoder) int16() int16 { return int16(binary.BigEndian.Uint16(d.take(2))) }
func (d *decoder) int32() int32 { return int32(binary.BigEndian.Uint32(d.take(4))) }
func (d *decoder) int64() int64 { return int64(binary.BigEndian.Uint64(d.take(8))) }

func (d *decoder) varint() int {
	value, size := binary.Uvarint(d.rest)
	if size <= 0 || value > 1<<31 {
		d.err = errShort
		return 0
	}
	d.take(size)
	return int(value)
}

// text reads a text; null is an empty one.
func (d *decoder) text() string {
	length := 0
	if d.flexible {
		length = d.varint() - 1
	} else {
		length = int(d.int16())
	}
	if length <= 0 || d.err != nil {
		return ""
	}
	return string(d.take(length))
}

// count reads the length of an array. Each element has at least one byte.
func (d *decoder) count() int {
	length := 0
	if d.flexible {
		length = d.varint() - 1
	} else {
		length = int(d.int32())
	}
	if length > len(d.rest) {
		d.err = errShort
	}
	if d.err != nil {
		return 0
	}
	return length
}

func (d *decoder) tags() {
	if !d.flexible {
		return
	}
	for i := d.varint(); i > 0 && d.err == nil; i-- {
		d.varint()
		d.take(d.varint())
	}
}

// readCommit returns the offsets in a request, from the client id in its header on.
func readCommit(version int16, body []byte) ([]committed, error) {
	if version < oldestCommit || version > newestCommit {
		return nil, fmt.Errorf("OffsetCommit version %d is not known", version)
	}
	d := &decoder{rest: body}
	d.text() // the client id is never compact
	d.flexible = version >= firstFlexible
	d.tags()
	d.text() // group
	d.int32()
	d.text() // member
	if version <= 4 {
		d.int64() // retention
	}
	if version >= 7 {
		d.text() // instance
	}
	var found []committed
	for topics := d.count(); topics > 0 && d.err == nil; topics-- {
		topic := d.text()
		for partitions := d.count(); partitions > 0 && d.err == nil; partitions-- {
			found = append(found, committed{Partition{topic, d.int32()}, d.int64()})
			if version >= 6 {
				d.int32() // leader epoch
			}
			d.text() // metadata
			d.tags()
		}
		d.tags()
	}
	return found, d.err
}

// readAnswer returns the error codes in a response, from the end of its correlation id on.
func readAnswer(version int16, body []byte) (map[Partition]int16, error) {
	d := &decoder{rest: body, flexible: version >= firstFlexible}
	d.tags()
	if version >= 3 {
		d.int32() // throttle time
	}
	found := map[Partition]int16{}
	for topics := d.count(); topics > 0 && d.err == nil; topics-- {
		topic := d.text()
		for partitions := d.count(); partitions > 0 && d.err == nil; partitions-- {
			number := d.int32()
			found[Partition{topic, number}] = d.int16()
			d.tags()
		}
		d.tags()
	}
	return found, d.err
}
