package main

import (
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"net"
	"sync"

	"github.com/IBM/sarama"
)

// Tap observes the commits on the connections of a client. The library says nothing about the outcome of a commit, and
// sends marked offsets again by itself, so the requests and the answers of the brokers are the only evidence.
//
// sarama connects through it as through a proxy (Net.Proxy), which is also where TLS is set up.
type Tap struct {
	dialer     net.Dialer
	encryption *tls.Config
	commits    commitListener
}

// commitListener learns of each request to commit that is sent, and of how it ends.
type commitListener interface {
	// sent returns what answered and lost get for this request.
	sent(offsets []committed) any
	answered(request any, codes map[Partition]int16)
	lost(request any)
	// unreadable reports that commits can no longer be observed.
	unreadable(err error)
}

// tapped makes the connections of a configuration go through a tap; commits may be nil.
func tapped(config *sarama.Config, encryption *tls.Config, commits commitListener) {
	dialer := net.Dialer{Timeout: config.Net.DialTimeout, KeepAlive: config.Net.KeepAlive}
	config.Net.Proxy.Enable = true
	config.Net.Proxy.Dialer = &Tap{dialer: dialer, encryption: encryption, commits: commits}
}

// Dial connects to a broker.
func (t *Tap) Dial(network, address string) (net.Conn, error) {
	conn, err := t.connect(network, address)
	if err != nil || t.commits == nil {
		return conn, err
	}
	tapped := &tappedConn{Conn: conn, commits: t.commits, pending: map[int32]pendingCommit{}}
	tapped.requests.keep = tapped.isCommit
	tapped.requests.done = tapped.request
	tapped.responses.keep = tapped.isPending
	tapped.responses.done = tapped.response
	return tapped, nil
}

func (t *Tap) connect(network, address string) (net.Conn, error) {
	if t.encryption == nil {
		return t.dialer.Dial(network, address)
	}
	return tls.DialWithDialer(&t.dialer, network, address, t.encryption)
}

type pendingCommit struct {
	version int16
	request any
}

// tappedConn is a connection to a broker. sarama writes in one goroutine at a time, and reads in another one.
type tappedConn struct {
	net.Conn
	commits             commitListener
	requests, responses framer
	mu                  sync.Mutex
	pending             map[int32]pendingCommit
	closed              bool
}

func (c *tappedConn) Write(data []byte) (int, error) {
	c.requests.feed(data) // before it is sent: the answer must find its request
	return c.Conn.Write(data)
}

func (c *tappedConn) Read(data []byte) (int, error) {
	count, err := c.Conn.Read(data)
	c.responses.feed(data[:count])
	return count, err
}

func (c *tappedConn) Close() error {
	err := c.Conn.Close()
	c.mu.Lock()
	lost := c.pending
	c.pending, c.closed = map[int32]pendingCommit{}, true
	c.mu.Unlock()
	for _, pending := range lost {
		c.commits.lost(pending.request)
	}
	return err
}

func (c *tappedConn) isCommit(head []byte) bool { return binary.BigEndian.Uint16(head) == offsetCommit }

func (c *tappedConn) request(frame []byte) {
	version := int16(binary.BigEndian.Uint16(frame[2:]))
	offsets, err := readCommit(version, frame[requestHeadBytes:])
	if err != nil {
		c.commits.unreadable(fmt.Errorf("a request to commit cannot be read: %w", err))
		return
	}
	request := c.commits.sent(offsets)
	c.mu.Lock()
	closed := c.closed
	if !closed {
		c.pending[int32(binary.BigEndian.Uint32(frame[4:]))] = pendingCommit{version, request}
	}
	c.mu.Unlock()
	if closed {
		c.commits.lost(request)
	}
}

func (c *tappedConn) isPending(head []byte) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, found := c.pending[int32(binary.BigEndian.Uint32(head))]
	return found
}

func (c *tappedConn) response(frame []byte) {
	id := int32(binary.BigEndian.Uint32(frame))
	c.mu.Lock()
	pending, found := c.pending[id]
	delete(c.pending, id)
	c.mu.Unlock()
	if !found {
		return
	}
	codes, err := readAnswer(pending.version, frame[4:])
	if err != nil {
		c.commits.lost(pending.request)
		c.commits.unreadable(fmt.Errorf("the answer to a commit cannot be read: %w", err))
		return
	}
	c.commits.answered(pending.request, codes)
}

// framer divides a stream into messages, and passes on those that `keep` chooses by their first bytes.
type framer struct {
	keep  func(head []byte) bool
	done  func(frame []byte)
	frame []byte // size and content so far
	skip  int    // bytes left of a message that is not kept
	kept  bool
}

// frameHead is the number of bytes by which a message is chosen: its size, and the beginning of its header.
const frameHead = 8

func (f *framer) feed(data []byte) {
	for len(data) > 0 {
		if f.skip > 0 {
			count := min(f.skip, len(data))
			f.skip -= count
			data = data[count:]
			continue
		}
		count := min(f.wanted()-len(f.frame), len(data))
		f.frame = append(f.frame, data[:count]...)
		data = data[count:]
		f.advance()
	}
}

// wanted returns the number of bytes of `frame` at which to look at it again: its size, then its head, then all of it.
func (f *framer) wanted() int {
	if len(f.frame) < 4 {
		return 4
	}
	size := 4 + int(binary.BigEndian.Uint32(f.frame))
	if f.kept {
		return size
	}
	return min(size, frameHead)
}

func (f *framer) advance() {
	if len(f.frame) < 4 || len(f.frame) < f.wanted() {
		return
	}
	size := int(binary.BigEndian.Uint32(f.frame))
	if !f.kept && (size < frameHead-4 || !f.keep(f.frame[4:])) {
		f.skip = max(0, size-(frameHead-4))
		f.frame = f.frame[:0]
		return
	}
	f.kept = true
	if len(f.frame) == 4+size {
		f.done(f.frame[4:])
		f.frame, f.kept = f.frame[:0], false
	}
}
