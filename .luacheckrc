-- The scripts of emq_django/protocol/lua, with their includes expanded, as the server runs them.
std = "lua51"
read_globals = { "KEYS", "ARGV", "redis", "cjson", "cmsgpack", "struct", "bit" }
max_line_length = false
