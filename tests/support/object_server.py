"""A server of objects on loopback, as S3 and plain HTTP servers are: GET with ranges, HEAD and PUT. It checks signatures
by an implementation of its own (AWS Signature Version 4), and misbehaves as it is told."""
import hashlib
import hmac
import http.server
import threading
import time

EMPTY = hashlib.sha256(b"").hexdigest()


class Server:
    """`behave(method, path, number)` says what happens to a request: None, a status code, "cut" (the connection ends in the
    middle of the body), "wrong" (a byte is changed), "slow" (in small pieces), "stall" (nothing comes), or, as bytes, the
    message of a refusal (400). `secrets` are the secret keys by access key: with them, every request must be signed."""

    def __init__(self, behave=None, secrets=None, token=None, has_ranges=True):
        self.objects, self.requests, self.ranges, self.faults = {}, [], [], []
        self.behave = behave or (lambda method, path, number: None)
        self.secrets, self.token, self.has_ranges = secrets, token, has_ranges
        self.lock = threading.Lock()
        self.stalled = threading.Event()
        self.ending = threading.Event()
        server = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do_GET(self):
                server.answer(self)

            do_HEAD = do_PUT = do_GET

        class Listener(http.server.ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 128

            def handle_error(self, *_):
                pass

        self.listener = Listener(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.listener.server_address[1]}"
        self.thread = threading.Thread(target=self.listener.serve_forever, args=(0.01,), daemon=True)
        self.thread.start()

    def close(self):
        self.ending.set()
        self.listener.shutdown()
        self.listener.server_close()

    def count(self, method, part=""):
        return sum(1 for had, path in self.requests if had == method and part in path)

    # ---- Answers ------------------------------------------------------------------------------------------------------

    def answer(self, handler):
        method, path = handler.command, handler.path
        body = handler.rfile.read(int(handler.headers.get("Content-Length") or 0))
        with self.lock:
            self.requests.append((method, path))
            number = len(self.requests)
            fault = self.behave(method, path, number)
            if fault is not None:
                self.faults.append(fault)
        wrong = self.wrong_signature(handler, body) if self.secrets else None
        if wrong:
            return self.send(handler, 403, f"<Error><Code>SignatureDoesNotMatch</Code><Message>{wrong}</Message></Error>".encode())
        if isinstance(fault, bytes):
            return self.send(handler, 400, b"<Error><Code>No</Code><Message>" + fault + b"</Message></Error>")
        if isinstance(fault, int):
            return self.send(handler, fault, b"<Error><Code>SlowDown</Code><Message>Please reduce</Message></Error>", {"Retry-After": "0"})
        if fault == "stall":
            self.stalled.set()
            self.ending.wait(60)
            handler.close_connection = True
            return None
        if method == "PUT":
            if fault == "cut":
                handler.close_connection = True
                return handler.connection.close()
            self.objects[path] = body
            return self.send(handler, 200, b"")
        if path not in self.objects:
            return self.send(handler, 404, b"<Error><Code>NoSuchKey</Code></Error>")
        return self.send_object(handler, self.objects[path], fault)

    def send_object(self, handler, data, fault):
        code, headers = 200, {}
        asked = handler.headers.get("Range")
        if asked and self.has_ranges:
            first = int(asked.removeprefix("bytes=").removesuffix("-"))
            if first >= len(data):
                return self.send(handler, 416, b"")
            self.ranges.append(first)
            code, headers = 206, {"Content-Range": f"bytes {first}-{len(data) - 1}/{len(data)}"}
            data = data[first:]
        if fault == "wrong":
            data = bytes([data[0] ^ 1]) + data[1:]
        return self.send(handler, code, data, headers, fault)

    def send(self, handler, code, data, headers=None, fault=None):
        handler.send_response(code)
        for name, value in (headers or {}).items():
            handler.send_header(name, value)
        handler.send_header("Content-Length", str(len(data)))
        handler.end_headers()
        if handler.command == "HEAD":
            return
        if fault == "cut":
            handler.wfile.write(data[: len(data) // 2])
            handler.wfile.flush()
            handler.close_connection = True
            handler.connection.close()
        elif fault == "slow":
            for at in range(0, len(data), 1500):
                handler.wfile.write(data[at : at + 1500])
                handler.wfile.flush()
                time.sleep(0.001)
        else:
            handler.wfile.write(data)

    # ---- Signatures ---------------------------------------------------------------------------------------------------

    def wrong_signature(self, handler, body):
        """None, or why a request is refused."""
        given = handler.headers.get("Authorization", "")
        if not given.startswith("AWS4-HMAC-SHA256 "):
            return "no signature"
        parts = dict(part.strip().split("=", 1) for part in given.removeprefix("AWS4-HMAC-SHA256 ").split(","))
        access_key, date, region, service, ending = parts["Credential"].split("/")
        if access_key not in self.secrets or (service, ending) != ("s3", "aws4_request"):
            return "other credentials"
        if self.token and handler.headers.get("x-amz-security-token") != self.token:
            return "no token"
        names = parts["SignedHeaders"].split(";")
        wanted = {"host", "x-amz-date", "x-amz-content-sha256"} | ({"x-amz-security-token"} if self.token else set())
        if not wanted <= set(names):
            return f"signed headers are {names}"
        content = handler.headers["x-amz-content-sha256"]
        if content != (hashlib.sha256(body).hexdigest() if body else EMPTY):
            return "the hash of the body"
        path, _, query = handler.path.partition("?")
        canonical = "\n".join([handler.command, path, query, *(f"{name}:{handler.headers[name].strip()}" for name in names), "",
                               ";".join(names), content])
        moment = handler.headers["x-amz-date"]
        text = "\n".join(["AWS4-HMAC-SHA256", moment, f"{date}/{region}/s3/aws4_request", hashlib.sha256(canonical.encode()).hexdigest()])
        key = b"AWS4" + self.secrets[access_key].encode()
        for part in (date, region, "s3", "aws4_request"):
            key = hmac.new(key, part.encode(), hashlib.sha256).digest()
        signature = hmac.new(key, text.encode(), hashlib.sha256).hexdigest()
        return None if signature == parts["Signature"] and moment.startswith(date) else "the signature"
