# SPDX-License-Identifier: Apache-2.0
"""Somebody who gathers profiles: takes what is POSTed, or refuses it, or is slow, or gone."""
import http.server
import socket
import threading


class Receiver:
    """A context manager. Its port stays its own while it is gone."""

    def __init__(self):
        self.lock = threading.Lock()
        self.got = []        # (path, type, body) of each that was taken
        self.asked = 0       # requests
        self.answers = []    # the status of the next ones; then 200
        self.slow = None     # an Event: no answer before it is set
        self.server = self.thread = None
        self.reserved = self.bind(0)
        self.port = self.reserved.getsockname()[1]

    def bind(self, port):
        made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        made.bind(("127.0.0.1", port))
        return made

    def url(self, path="/"):
        return f"http://127.0.0.1:{self.port}{path}"

    def handler(self):
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                with receiver.lock:
                    receiver.asked += 1
                    status = receiver.answers.pop(0) if receiver.answers else 200
                    slow = receiver.slow
                if slow:
                    slow.wait()
                if status == 200:
                    with receiver.lock:
                        receiver.got.append((self.path, self.headers["Content-Type"], body))
                try:
                    self.send_response(status)
                    self.send_header("Content-Length", "0")
                    self.end_headers()
                except OSError:
                    pass  # it did not wait

            def log_message(self, *_):
                pass

        return Handler

    def open(self):
        server = http.server.ThreadingHTTPServer(("127.0.0.1", self.port), self.handler(),
                                                 bind_and_activate=False)
        server.daemon_threads = True
        server.socket.close()
        server.socket = self.bind(self.port)
        server.server_activate()
        self.server = server
        self.thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        self.thread.start()

    def close(self):
        if self.server:
            self.server.shutdown()
            self.thread.join()
            self.server.server_close()
        self.server = None

    def __enter__(self):
        self.open()
        return self

    def __exit__(self, *_):
        if self.slow:
            self.slow.set()
        self.close()
        self.reserved.close()
