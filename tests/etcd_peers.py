"""The ways between the members of one etcd: a relay in front of each, which can cut one member off from the others, while
its clients reach it still."""

import re
import socket
import threading

HEAD_BYTES_MAX = 65536


class Relay:
    """In front of one member's port for the others. Members say who they are in the first request of a connection."""

    def __init__(self, relays, target_port):
        self.relays, self.target_port = relays, target_port
        self.id = None  # etcd's, once somebody has called it by it
        self.is_cut = False
        self.connections = []  # (the caller's id, both sockets)
        self.lock = threading.Lock()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                caller, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(caller,), daemon=True).start()

    def _serve(self, caller):
        try:
            head = b""
            while b"\r\n\r\n" not in head and len(head) < HEAD_BYTES_MAX:
                more = caller.recv(4096)
                if not more:
                    return caller.close()
                head += more
            source, own = (re.search(rb"(?im)^%s: *([0-9a-f]+)" % name, head) for name in (b"X-Server-From", b"X-Raft-To"))
            source = source and source[1]
            if own:
                self.id = own[1]
            if self.is_cut or any(one.is_cut and one.id == source for one in self.relays):
                return caller.close()
            target = socket.create_connection(("127.0.0.1", self.target_port), 5)
            target.settimeout(None)
            target.sendall(head)
        except OSError:
            return caller.close()
        with self.lock:
            self.connections.append((source, caller, target))
        for one, other in ((caller, target), (target, caller)):
            threading.Thread(target=self._pass_on, args=(one, other), daemon=True).start()

    @staticmethod
    def _pass_on(one, other):
        try:
            while data := one.recv(65536):
                other.sendall(data)
        except OSError:
            pass
        for end in (one, other):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def end(self, callers=None):
        """Connections of these callers, or all."""
        with self.lock:
            going = [one for one in self.connections if callers is None or one[0] in callers]
            self.connections = [one for one in self.connections if one not in going]
        for _, *ends in going:
            for end in ends:
                try:
                    end.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass

    def cut(self):
        self.is_cut = True
        self.end()
        for other in self.relays:
            other.end({self.id, None})

    def heal(self):
        self.is_cut = False
