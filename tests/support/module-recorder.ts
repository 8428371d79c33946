// Loaded into a server first: prints on exit which of Node's built-in modules it has loaded.
process.on('exit', () => {
  const { moduleLoadList } = process as unknown as { moduleLoadList: readonly string[] };
  process.stdout.write(`${JSON.stringify({ modules: moduleLoadList })}\n`);
});
