package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"math"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// Channel holds the orders received on stdin, and sends events on stdout; see chaos.clients.
type Channel struct {
	start, stop     chan struct{}
	ignoringReports atomic.Bool
	perRecord       atomic.Uint64 // bits of a float64, seconds
	onSlow          func(perRecordS float64)
	onSeek          func(seek) error
	mu              sync.Mutex
	lastProgress    string
}

// seek is an order: new offsets by partition, or a time in the past: continue at the first record from then on.
type seek struct {
	Offsets map[string]int64 `json:"offsets"`
	AgoS    *float64         `json:"ago_s"`
}

// progressEvery is the time between two progress events.
const progressEvery = 100 * time.Millisecond

func newChannel() *Channel {
	return &Channel{
		start: make(chan struct{}), stop: make(chan struct{}),
		onSlow: func(float64) {},
		onSeek: func(seek) error { return errors.New("this client cannot seek") },
	}
}

func (c *Channel) stopping() bool { return isClosed(c.stop) }

func (c *Channel) perRecordS() float64 { return math.Float64frombits(c.perRecord.Load()) }

// listen obeys orders. When stdin ends, the fleet is gone, and the process ends.
func (c *Channel) listen() {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		if err := c.obey(lines.Bytes()); err != nil {
			c.send("error", map[string]any{"detail": fmt.Sprintf("invalid order %s: %v", lines.Text(), err)})
		}
	}
	log.Println("stdin ended")
	os.Exit(1)
}

func (c *Channel) obey(line []byte) error {
	var order struct {
		Do         string   `json:"do"`
		PerRecordS *float64 `json:"per_record_s"`
		seek
	}
	if err := json.Unmarshal(line, &order); err != nil {
		return err
	}
	switch order.Do {
	case "start":
		closeOnce(c.start)
	case "stop":
		closeOnce(c.stop)
	case "ignore_reports":
		c.ignoringReports.Store(true)
	case "slow":
		if order.PerRecordS == nil {
			return fmt.Errorf("per_record_s is missing")
		}
		c.perRecord.Store(math.Float64bits(*order.PerRecordS))
		c.onSlow(*order.PerRecordS)
	case "seek":
		return c.onSeek(order.seek)
	default:
		return fmt.Errorf("unknown order %q", order.Do)
	}
	return nil
}

func (c *Channel) send(event string, fields map[string]any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.write(event, fields)
}

// progress sends a progress event, unless nothing changed.
func (c *Channel) progress(fields map[string]any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if text := toJSON(fields); text != c.lastProgress {
		c.lastProgress = text
		c.write("progress", fields)
	}
}

func (c *Channel) write(event string, fields map[string]any) {
	all := map[string]any{"event": event}
	for name, value := range fields {
		all[name] = value
	}
	if _, err := os.Stdout.WriteString(toJSON(all) + "\n"); err != nil {
		os.Exit(1) // the fleet is gone
	}
}

// closeOnce closes a channel that only the calling goroutine closes.
func closeOnce(channel chan struct{}) {
	if !isClosed(channel) {
		close(channel)
	}
}

func isClosed(channel <-chan struct{}) bool {
	select {
	case <-channel:
		return true
	default:
		return false
	}
}

// sleep waits, and returns false early if the channel is closed.
func sleep(seconds float64, ended <-chan struct{}) bool {
	timer := time.NewTimer(time.Duration(seconds * float64(time.Second)))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ended:
		return false
	}
}

func toJSON(value any) string {
	raw, err := json.Marshal(value)
	if err != nil {
		log.Fatal(err)
	}
	return string(raw)
}

func nowUs() int64 { return time.Now().UnixMicro() }
