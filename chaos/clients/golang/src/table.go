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
	"slices"
	"strconv"
	"sync"
)

// schema is the version of the ledger schema that these programs write.
const schema = 1

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

// ints adds a column of numbers; `missing` becomes null. Without null, it is written as the first number and the steps
// between them: they are shorter, and consecutive numbers need no list.
func (b *Batch) ints(name string, values []int64) *Batch {
	b.column(name)
	if len(values) == 0 || slices.Contains(values, missing) {
		b.list(values, appendInt)
		return b
	}
	b.text = appendInt(append(b.text, `{"first":`...), values[0])
	if consecutive(values) {
		b.text = appendInt(append(b.text, `,"step":1,"rows":`...), int64(len(values)))
	} else {
		last := values[0]
		b.text = append(b.text, `,"steps":`...)
		b.list(values[1:], func(text []byte, value int64) []byte {
			text = strconv.AppendInt(text, value-last, 10)
			last = value
			return text
		})
	}
	b.text = append(b.text, '}')
	return b
}

func (b *Batch) list(values []int64, add func([]byte, int64) []byte) {
	b.text = append(b.text, '[')
	for i, value := range values {
		if i > 0 {
			b.text = append(b.text, ',')
		}
		b.text = add(b.text, value)
	}
	b.text = append(b.text, ']')
}

func consecutive(values []int64) bool {
	for i, value := range values {
		if value != values[0]+int64(i) {
			return false
		}
	}
	return true
}

// int adds a column with one number for all rows; `missing` becomes null.
func (b *Batch) int(name string, value int64) *Batch {
	b.column(name)
	b.text = appendInt(b.text, value)
	return b
}

// foldedInts adds a column of numbers as one number if they are equal. Another column has to give the number of rows.
func (b *Batch) foldedInts(name string, values []int64) *Batch {
	if equal(values) {
		return b.int(name, values[0])
	}
	return b.ints(name, values)
}

// foldedTexts adds a column of texts as one text if they are equal. Another column has to give the number of rows. nil
// becomes null.
func (b *Batch) foldedTexts(name string, values []*string) *Batch {
	for _, value := range values[1:] {
		if value != values[0] && (value == nil || values[0] == nil || *value != *values[0]) {
			return b.put(name, values)
		}
	}
	return b.put(name, values[0])
}

func equal(values []int64) bool {
	for _, value := range values {
		if value != values[0] {
			return false
		}
	}
	return true
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
	var stepped struct {
		First, Step, Rows int64
		Steps             []int64
	}
	if json.Unmarshal(column, &many) == nil {
		return many
	} else if json.Unmarshal(column, &stepped) == nil && column != nil {
		many = append(many, stepped.First+max(0, stepped.Rows-1)*stepped.Step)
		for _, step := range stepped.Steps {
			many = append(many, many[len(many)-1]+step)
		}
		return many
	} else if json.Unmarshal(column, &one) == nil && column != nil {
		return []int64{one}
	}
	return nil
}

func tablePath(spec *Spec, table string, incarnation int64) string {
	return filepath.Join(spec.Ledger, table, spec.writer(incarnation)+".jsonl")
}
