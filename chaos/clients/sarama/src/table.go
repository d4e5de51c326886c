package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"sync"
)

// schema is the version of the ledger schema that these programs write.
const schema = 3

// missing is null in a column of numbers.
const missing int64 = -1 << 63

// Table is a ledger file of one table and one incarnation: batch lines, each line one write(2).
type Table struct {
	mu   sync.Mutex
	file *os.File
}

func newTable(spec *Spec, table string) (*Table, error) {
	path := tablePath(spec, table, spec.Incarnation)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	t := &Table{file: file}
	t.writeLine(fmt.Appendf(nil, `{"schema":%d,"table":%q}`+"\n", schema, table))
	return t, nil
}

func (t *Table) write(batch *Batch) { t.writeLine(append(batch.text, '}', '\n')) }

func (t *Table) writeLine(line []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, err := t.file.Write(line); err != nil {
		log.Fatalf("the ledger cannot be written: %v", err)
	}
}

// Batch is one line: columns with one value for all rows, or with a list of one value for each row.
type Batch struct{ text []byte }

func newBatch() *Batch { return &Batch{text: append(make([]byte, 0, 1024), '{')} }

func (b *Batch) column(name string) {
	if len(b.text) > 1 {
		b.text = append(b.text, ',')
	}
	b.text = append(strconv.AppendQuote(b.text, name), ':')
}

// put adds a column with one value for all rows, or with a list of values. A nil pointer becomes null.
func (b *Batch) put(name string, value any) *Batch {
	b.column(name)
	b.text = append(b.text, toJSON(value)...)
	return b
}

// ints adds a column of numbers; `missing` becomes null.
func (b *Batch) ints(name string, values []int64) *Batch {
	b.column(name)
	b.text = append(b.text, '[')
	for i, value := range values {
		if i > 0 {
			b.text = append(b.text, ',')
		}
		b.text = appendInt(b.text, value)
	}
	b.text = append(b.text, ']')
	return b
}

// int adds a column with one number for all rows; `missing` becomes null.
func (b *Batch) int(name string, value int64) *Batch {
	b.column(name)
	b.text = appendInt(b.text, value)
	return b
}

// folded adds a column as one value if all its values are equal, else as a list.
func folded[T any](b *Batch, name string, values []T) *Batch {
	for _, value := range values[1:] {
		if !reflect.DeepEqual(value, values[0]) {
			return b.put(name, values)
		}
	}
	return b.put(name, values[0])
}

func appendInt(text []byte, value int64) []byte {
	if value == missing {
		return append(text, "null"...)
	}
	return strconv.AppendInt(text, value, 10)
}

// nextSeq returns the seq after the highest one in the rows of earlier incarnations; 0 without rows.
func nextSeq(spec *Spec) (int64, error) {
	var next int64
	for incarnation := int64(1); incarnation < spec.Incarnation; incarnation++ {
		file, err := os.Open(tablePath(spec, "sends", incarnation))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return 0, err
		}
		lines := bufio.NewScanner(file)
		lines.Buffer(nil, 1<<26)
		for lines.Scan() {
			var row struct {
				Seq json.RawMessage `json:"seq"`
			}
			if json.Unmarshal(lines.Bytes(), &row) != nil {
				break // the last line was cut off
			}
			for _, seq := range seqs(row.Seq) {
				next = max(next, seq+1)
			}
		}
		err = lines.Err()
		file.Close()
		if err != nil {
			return 0, err
		}
	}
	return next, nil
}

func seqs(column json.RawMessage) []int64 {
	var many []int64
	var one int64
	if json.Unmarshal(column, &many) == nil {
		return many
	} else if json.Unmarshal(column, &one) == nil && column != nil {
		return []int64{one}
	}
	return nil
}

func tablePath(spec *Spec, table string, incarnation int64) string {
	return filepath.Join(spec.Ledger, table, spec.writer(incarnation)+".jsonl")
}
