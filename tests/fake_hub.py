#!/usr/bin/env python3
"""A tiny Hugging Face hub on loopback, enough for snapshot_download, hf_hub_download and a C++ client's tests.

usage: fake_hub.py FOLDER [options: see defaults]; FOLDER/ORG/NAME/BRANCH/file...   each BRANCH folder is one commit; its id is the sha1 of its listing.
--token  wanted as "Authorization: Bearer" for files of repos whose name begins with "gated"; as at the hub, their listing is open
--page   entries a tree page (Link: <...>; rel="next");  --cut: close the connection after N bytes of a body
--rate   bytes a second of each body from the CDN
--elsewhere  where files of the CDN are said to be in its place
--signature  a secret in the addresses of files at the CDN, which answers 403 without it and repeats what it was asked
--wrong  flip one bit in the first N bodies from the CDN;  --busy: first N requests get 429 and 503 in turns, with Retry-After: 1
--log    one JSON line per request: method, port, path, status, headers"""
import argparse
import hashlib
import json
import os
import re
import threading
import time
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

arguments = argparse.ArgumentParser()
arguments.add_argument("folder")
for name, default in (("port", 27100), ("cdn-port", 27101), ("page", 1000), ("cut", 0), ("wrong", 0), ("busy", 0),
                      ("lfs-over", 1000), ("rate", 0), ("token", ""), ("signature", ""), ("elsewhere", ""), ("log", "")):
    arguments.add_argument("--" + name, type=type(default), default=default)
args = arguments.parse_args()
lock, left = threading.Lock(), {"wrong": args.wrong, "busy": args.busy}
digests = {}  # (path, mtime, size) -> (git sha1, sha256)


def digest(path):
    stat = os.stat(path)
    if (key := (path, stat.st_mtime_ns, stat.st_size)) not in digests:
        git, sha = hashlib.sha1(b"blob %d\0" % stat.st_size), hashlib.sha256()
        with open(path, "rb") as file:
            while chunk := file.read(1 << 20):
                git.update(chunk)
                sha.update(chunk)
        digests[key] = git.hexdigest(), sha.hexdigest()
    return digests[key]


def entries(root):
    rows = []
    for folder, _, names in os.walk(root):
        for name in names:
            path = os.path.join(folder, name)
            (git, sha), size = digest(path), os.path.getsize(path)
            row = {"type": "file", "oid": git, "size": size, "path": os.path.relpath(path, root)}
            if size > args.lfs_over:
                row["lfs"] = {"oid": sha, "size": size, "pointerSize": 134}
            rows.append(row)
    return sorted(rows, key=lambda row: row["path"])


def commit_of(root):
    return hashlib.sha1(json.dumps(entries(root)).encode()).hexdigest()


def find(repo, revision):
    base = os.path.join(args.folder, repo)
    for branch in sorted(os.listdir(base)) if os.path.isdir(base) else []:
        root = os.path.join(base, branch)
        if revision in (branch, commit_of(root)):
            return root, commit_of(root)


def take_one(name):
    with lock:
        left[name] -= 1
        return left[name] >= 0


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    log_message = lambda self, *unused: None

    def answer(self, status, body=b"", headers=(), length=None):
        if args.log:  # first: who has the answer finds the line
            line = {"method": self.command, "port": self.server.server_port, "path": self.path, "status": status,
                    "headers": {k: v for k, v in self.headers.items() if k.lower() not in ("host", "connection")}}
            with lock, open(args.log, "a") as file:
                file.write(json.dumps(line) + "\n")
        self.send_response(status)
        for name, value in [*headers, ("Content-Length", str(len(body) if length is None else length))]:
            self.send_header(name, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def fail(self, status, code, text):
        self.answer(status, json.dumps({"error": text}).encode(),
                    [("X-Error-Code", code), ("X-Error-Message", text), ("Content-Type", "application/json")])

    def file(self, path, headers, spoil=False):
        size = end = os.path.getsize(path)
        start, status = 0, 200
        if m := re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", "")):
            start, status, end = int(m[1]), 206, min(int(m[2]) + 1, size) if m[2] else size
            if start >= size:
                return self.answer(416, headers=[("Content-Range", f"bytes */{size}")])
            headers = [*headers, ("Content-Range", f"bytes {start}-{end - 1}/{size}")]
        headers = [*headers, ("Accept-Ranges", "bytes"), ("Content-Type", "application/octet-stream")]
        self.answer(status, headers=headers, length=end - start)
        sent = 0
        with open(path, "rb") as file:
            file.seek(start)
            while self.command == "GET" and sent < end - start:
                data = file.read(min(1 << 18, end - start - sent, args.cut - sent if args.cut else 1 << 18))
                self.wfile.write(bytes([data[0] ^ 1]) + data[1:] if spoil and sent == 0 else data)
                sent += len(data)
                if args.rate:
                    time.sleep(len(data) / args.rate)
                if args.cut and args.cut <= sent < end - start:
                    self.close_connection = True
                    return

    def do_GET(self):
        url = urllib.parse.urlsplit(self.path)
        path, query = urllib.parse.unquote(url.path), dict(urllib.parse.parse_qsl(url.query))
        if self.server.server_port == args.cdn_port:
            if query.get("Signature", "") != args.signature:
                return self.answer(403, f"{self.path} {args.signature} has run out".encode())
            spoil = self.command == "GET" and take_one("wrong")
            return self.file(os.path.join(args.folder, path.lstrip("/")), [("ETag", '"cdn"')], spoil)
        if take_one("busy"):
            return self.answer(429 if left["busy"] % 2 else 503, b"slow down", [("Retry-After", "1")])
        m = (re.fullmatch(r"/api/models/([^/]+/[^/]+)(?:/(revision|tree)/([^/]+))?", path)
             or re.fullmatch(r"/([^/]+/[^/]+)/(resolve)/([^/]+)/(.+)", path))
        if not m:
            return self.fail(404, "EntryNotFound", "no such route")
        repo, verb, revision = m[1], m[2], m[3] or "main"
        is_gated = verb == "resolve" and repo.split("/")[1].startswith("gated")
        if is_gated and self.headers.get("Authorization") != "Bearer " + args.token:
            return self.fail(401, "GatedRepo", f"Access to model {repo} is restricted.")
        if not os.path.isdir(os.path.join(args.folder, repo)):
            return self.fail(401, "RepoNotFound", "Invalid username or password.")  # as the hub: never a 404
        if not (found := find(repo, revision)):
            return self.fail(404, "RevisionNotFound", f"Invalid rev id: {revision}")
        root, commit = found
        if verb == "tree":
            rows, at = entries(root), int(query.get("cursor", 0))
            link = f'<http://127.0.0.1:{args.port}{url.path}?recursive=True&cursor={at + args.page}>; rel="next"'
            return self.answer(200, json.dumps(rows[at:at + args.page]).encode(),
                               [("Link", link)] if at + args.page < len(rows) else [])
        if verb != "resolve":
            info = {"id": repo, "sha": commit, "siblings": [{"rfilename": row["path"]} for row in entries(root)]}
            return self.answer(200, json.dumps(info).encode())
        if not (row := next((row for row in entries(root) if row["path"] == m[4]), None)):
            return self.answer(404, headers=[("X-Error-Code", "EntryNotFound"), ("X-Repo-Commit", commit)])
        if "lfs" not in row:
            return self.file(os.path.join(root, m[4]), [("ETag", f'"{row["oid"]}"'), ("X-Repo-Commit", commit)])
        target = urllib.parse.quote(os.path.relpath(os.path.join(root, m[4]), args.folder))
        target = f"http://127.0.0.1:{args.cdn_port}/{target}" + (f"?Signature={args.signature}" if args.signature else "")
        target = args.elsewhere or target
        self.answer(302, headers=[("Location", target), ("X-Repo-Commit", commit), ("X-Linked-Size", str(row["size"])),
                                  ("X-Linked-ETag", f'"{row["lfs"]["oid"]}"'), ("ETag", f'"{row["lfs"]["oid"]}"')])

    do_HEAD = do_GET


if __name__ == "__main__":
    cdn = ThreadingHTTPServer(("127.0.0.1", args.cdn_port), Handler)
    threading.Thread(target=cdn.serve_forever, daemon=True).start()
    ThreadingHTTPServer(("127.0.0.1", args.port), Handler).serve_forever()
