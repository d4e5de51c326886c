"""A worker of Kafka Connect as its REST API shows it, without Kafka."""

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

MISSING = (404, {"error_code": 404, "message": "No status found for connector printed"})


class Worker:
    """A worker that answers with what is given, by path, and keeps what is put."""

    def __init__(self) -> None:
        self.answers = {"/": (200, {"version": "4.3.1"})}
        self.put = []
        self.orders = []
        """Each order, as its method and path."""
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                self.answer(outer.answers.get(self.path, MISSING))

            def do_PUT(self):
                size = int(self.headers["Content-Length"] or 0)
                if size:
                    outer.put.append((self.path, json.loads(self.rfile.read(size))))
                self.ordered("PUT")

            def do_POST(self):
                self.ordered("POST")

            def ordered(self, method):
                outer.orders.append(f"{method} {self.path}")
                self.answer(outer.answers.get(f"{method} {self.path}", (201, {})))

            def answer(self, given):
                body = json.dumps(given[1]).encode()
                self.send_response(given[0])
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def port(self):
        return self.server.server_port

    def close(self):
        self.server.shutdown()
        self.server.server_close()

    def runs(self, connector="RUNNING", *tasks, workers=None, **more):
        """workers: the ports of the workers that have the tasks; this one if none is given."""
        ids = [f"127.0.0.1:{port}" for port in [self.port, *(workers or [self.port] * len(tasks))]]
        first, *states = [{"state": s, "worker_id": id_} for s, id_ in zip([connector, *tasks], ids, strict=True)]
        states = [{"id": n, **state, **more} for n, state in enumerate(states)]
        self.answers["/connectors/printed/status"] = (200, {"connector": first, "tasks": states})
