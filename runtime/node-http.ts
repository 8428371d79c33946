// Node's HTTP, for whoever needs more of it than its types.

/** An import by name reads all that node:http exports, its WebSocket among it, which loads the whole of fetch: 2 MB that nobody uses. */
export const http = process.getBuiltinModule('node:http');
