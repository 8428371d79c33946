# The service alone: PostgreSQL and Redis run elsewhere (see compose.yaml).
FROM node:24-slim AS build
WORKDIR /app
# The compiler is an optional package. Without scripts no second Node is installed.
COPY package.json package-lock.json .npmrc ./
COPY patches patches
RUN npm install --ignore-scripts --no-save && node_modules/.bin/patch-package --error-on-fail
COPY . .
RUN node cli/build.ts && npm prune --omit=dev --omit=optional --ignore-scripts --no-save

FROM node:24-slim
ENV NODE_ENV=production HOST=0.0.0.0 PORT=8080 DATA_DIR=/data MALLOC_ARENA_MAX=2
WORKDIR /app
COPY --from=build /app/node_modules node_modules
COPY --from=build /app/dist dist
COPY package.json LICENSE ./
RUN mkdir /data && chown node:node /data
USER node
EXPOSE 8080
HEALTHCHECK --interval=10s --timeout=3s --start-period=15s \
  CMD ["node", "-e", "fetch('http://127.0.0.1:' + process.env.PORT + '/v1/health').then(({ ok }) => process.exit(ok ? 0 : 1), () => process.exit(1))"]
# As make start does.
CMD ["node", "--max-semi-space-size=16", "--max-old-space-size=1024", "dist/main.js"]
