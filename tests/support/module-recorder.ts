// Loaded into a server first: when it ends, it tells which of Node's own modules it has loaded.
process.on('exit', () => {
  const { moduleLoadList } = process as unknown as { moduleLoadList: readonly string[] };
  process.stdout.write(`${JSON.stringify({ modules: moduleLoadList })}\n`);
});
