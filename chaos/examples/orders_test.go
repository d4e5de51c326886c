// A Go test that lets Aftershock judge an application: python -m chaos control --socket FILE serves it.
// AFTERSHOCK_SOCKET=FILE go test orders_test.go
package orders

import (
	"encoding/json"
	"net"
	"os"
	"strings"
	"testing"
)

const scenario = `{
  "title": "No order is lost when billing dies before a commit",
  "cluster": {"brokers": 1},
  "topics": [{"name": "orders", "replication_factor": 1}, {"name": "invoices", "replication_factor": 1}],
  "producers": [{"name": "shop", "topic": "orders", "records": 600, "rate": "200/s", "outlast_faults": true,
                 "value": {"samples": "FOLDER/orders.jsonl", "id": "$.order_id"}}],
  "apps": [{"name": "billing", "command": ["{python}", "work_then_commit.py"], "directory": "FOLDER",
            "env": {"KAFKA_BOOTSTRAP_SERVERS": "{bootstrap}"}, "group": "billing", "reads": ["orders"]}],
  "effects": [{"name": "invoices", "topic": "invoices", "id": "$.order_id"}],
  "faults": [{"name": "crash", "kind": "app.kill", "target": {"app": "billing"},
              "when": {"wire": {"app": "billing", "api": "OffsetCommit", "nth": 3}}}],
  "expect": {"effects": {"invoices": {"missing": 0, "duplicate": {"max": 400}}}}
}`

func TestNoOrderIsLost(t *testing.T) {
	connection, err := net.Dial("unix", os.Getenv("AFTERSHOCK_SOCKET"))
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	folder, _ := os.Getwd()
	var run map[string]any
	if err := json.Unmarshal([]byte(strings.ReplaceAll(scenario, "FOLDER", folder)), &run); err != nil {
		t.Fatal(err)
	}
	if err := json.NewEncoder(connection).Encode(map[string]any{"run": run}); err != nil { // one line
		t.Fatal(err)
	}
	for answers := json.NewDecoder(connection); ; {
		var answer struct{ Step, Verdict, Description, Error string }
		if err := answers.Decode(&answer); err != nil {
			t.Fatal(err)
		}
		switch {
		case answer.Step != "":
			t.Log(answer.Step)
		case answer.Verdict == "pass":
			return
		default:
			t.Fatal(answer.Error + answer.Description)
		}
	}
}
