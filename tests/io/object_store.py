"""An object store on loopback, and a proxy before it that fails as real ones do."""

import http.client
import socket
import struct
import threading
from functools import partial
from http.server import BaseHTTPRequestHandler, SimpleHTTPRequestHandler, ThreadingHTTPServer

from tests.io.s3_server import BUCKET, environment, running_server

__all__ = ["BUCKET", "Proxy", "Website", "environment", "running_server"]

_USER = environment(0)
KEY, SECRET = _USER["AWS_ACCESS_KEY_ID"], _USER["AWS_SECRET_ACCESS_KEY"]
TOKEN = _USER["AWS_SESSION_TOKEN"]
BUSY = (503, "SlowDown", "Please reduce your request rate.")
BROKEN = (500, "InternalError", "We encountered an internal error.")
DENIED = (403, "AccessDenied", "Access Denied")
CUT = "cut"
"""The connection ends in the middle of the body."""
RESET = "reset"
"""The connection is reset before an answer."""


class Proxy:
    """Passes requests on, except where `fault` says how they fail.

    `fault` takes the method, the path and how many requests for that path came before.
    """

    def __init__(self, port):
        self.upstream = port
        self.fault = lambda method, path, before: None
        self.seen = []
        self.injected = 0
        self.authorized = []
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.port = self._server.server_port
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self):
        self._server.shutdown()
        self._server.server_close()

    def asked(self, end):
        """Requests for objects whose name ends so."""
        return sum(path.endswith(end) for _, path in self.seen)

    def judged(self, method, path, headers):
        path = path.partition("?")[0]
        with self._lock:
            before = self.seen.count((method, path))
            self.seen.append((method, path))
            self.authorized.append(headers.get("Authorization", ""))
            fault = self.fault(method, path, before)
            self.injected += fault is not None
        return fault

    def _handler(proxy):
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def log_message(self, *_):
                pass

            def answer(self):
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                fault = proxy.judged(self.command, self.path, self.headers)
                if fault is None:
                    self.forward(body)
                elif fault == RESET:
                    linger = struct.pack("ii", 1, 0)
                    self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                    self.close_connection = True
                    self.connection.close()
                elif fault == CUT:
                    self.reply(200, b"only", length=4000)
                    self.close_connection = True
                else:
                    status, code, message = fault
                    text = f"<Error><Code>{code}</Code><Message>{message}</Message>"
                    self.reply(
                        status, f"{text}<AWSAccessKeyId>{KEY}</AWSAccessKeyId></Error>".encode()
                    )

            do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = answer

            def forward(self, body):
                upstream = http.client.HTTPConnection("127.0.0.1", proxy.upstream, timeout=60)
                upstream.request(self.command, self.path, body, dict(self.headers))
                response = upstream.getresponse()
                kept = ("Content-Range", "Content-Type", "ETag", "Last-Modified")
                headers = {k: v for k in kept if (v := response.getheader(k))}
                length = response.getheader("Content-Length") if self.command == "HEAD" else None
                self.reply(response.status, response.read(), headers, length)
                upstream.close()

            def reply(self, status, body, headers=None, length=None):
                self.send_response(status)
                for name, value in (headers or {}).items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(length or len(body)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(body)

        return Handler


class Website:
    """Serves a folder; `fault` gives a status by the path and how often it was asked before."""

    def __init__(self, folder):
        self.fault = lambda path, before: None
        self.asked = []
        handler = partial(self._handler(), directory=str(folder))
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self):
        self._server.shutdown()
        self._server.server_close()

    def _handler(site):
        class Handler(SimpleHTTPRequestHandler):
            def log_message(self, *_):
                pass

            def do_GET(self):
                before = site.asked.count(self.path)
                site.asked.append(self.path)
                status = site.fault(self.path, before)
                if status is None:
                    super().do_GET()
                else:
                    self.send_error(status)

        return Handler
