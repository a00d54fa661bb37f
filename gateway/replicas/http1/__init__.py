"""HTTP/1.1 to a replica, as little of it as a call needs: sockets, answers, connections kept."""
