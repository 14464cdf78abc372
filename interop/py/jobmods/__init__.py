"""Jobs that both job managers run. They need nothing but CPython: ours runs them in an interpreter without packages."""
