package main

import (
	"log"
	"sync"
	"time"
)

// sameErrorEvery is the time in which an error of the library that repeats is reported once.
const sameErrorEvery = time.Second

// Lifecycle writes `lifecycle` for one incarnation of a client, and sends the events that belong to it.
type Lifecycle struct {
	spec    *Spec
	channel *Channel
	table   *Table
	mu      sync.Mutex
	last    map[string]time.Time
}

func newLifecycle(spec *Spec, channel *Channel) (*Lifecycle, error) {
	table, err := newTable(spec, "lifecycle")
	return &Lifecycle{spec: spec, channel: channel, table: table, last: map[string]time.Time{}}, err
}

// event writes a row; for started and stopped, it sends an event as well.
func (l *Lifecycle) event(event string, detail map[string]any) {
	l.table.write(newBatch().
		put("client", l.spec.Client).
		put("role", l.spec.role()).
		int("incarnation", l.spec.Incarnation).
		put("event", event).
		put("detail", toJSON(detail)).
		int("at_us", nowUs()))
	if event == "started" || event == "stopped" {
		l.channel.send(event, nil)
	}
}

// error reports an error as a row, an event and a line in the log.
func (l *Lifecycle) error(message string, fatal bool) {
	detail := map[string]any{"error": message}
	if fatal {
		detail["fatal"] = true
	}
	l.event("error", detail)
	l.channel.send("error", map[string]any{"detail": message})
	log.Println(message)
}

// report reports an error after which the client continues, each text at most once a second.
func (l *Lifecycle) report(message string) {
	l.mu.Lock()
	due := time.Since(l.last[message]) > sameErrorEvery
	if due {
		l.last[message] = time.Now()
	}
	l.mu.Unlock()
	if due {
		l.error(message, false)
	}
}

// speed records the order slow.
func (l *Lifecycle) speed(perRecordS float64) {
	event := "resumed"
	if perRecordS > 0 {
		event = "slowed"
	}
	l.event(event, map[string]any{"per_record_s": perRecordS})
}
