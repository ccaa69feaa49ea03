FROM node:24-bookworm-slim AS manifest
WORKDIR /app
COPY package.json package-lock.json ./

FROM manifest AS build
# No install scripts: the one that matters fetches a Node, and the image has one.
RUN npm ci --ignore-scripts
COPY tsconfig.json tsconfig.build.json ./
COPY src src
COPY routes routes
RUN npm run build

FROM manifest AS dependencies
RUN npm ci --omit=dev --ignore-scripts

FROM node:24-bookworm-slim
RUN install -d -o 1000 -g 1000 /data
WORKDIR /app
COPY --from=dependencies /app/node_modules node_modules
COPY package.json LICENSE ./
COPY bin bin
COPY --from=build /app/dist dist
# The samples. A deployment mounts its own tools here, or names other folders in TOOLGATE_TOOLS.
COPY tools tools

# Beyond loopback, so the gateway starts with a TOOLGATE_API_KEY or a TOOLGATE_KEYS_FILE only, or with TOOLGATE_AUTH=none.
# The store is in the volume, and so are the notes of the sample take_note.
ENV NODE_ENV=production \
    TOOLGATE_HOST=0.0.0.0 \
    TOOLGATE_STORE=sqlite:/data/toolgate.db \
    NOTES_FILE=/data/notes.json
EXPOSE 8080
VOLUME /data
# As a number, so that Kubernetes can tell that it is not root.
USER 1000:1000

# Prints what /readyz says, at the port that TOOLGATE_PORT sets. One that is no number (Kubernetes sets tcp://… for a
# Service named toolgate) is none, as for the gateway.
HEALTHCHECK --interval=10s --timeout=5s --start-period=20s --retries=3 CMD ["node", "-e", "\
  const port = /^[0-9]+$/.test(process.env.TOOLGATE_PORT) ? process.env.TOOLGATE_PORT : 8080;\
  fetch('http://127.0.0.1:' + port + '/readyz', { signal: AbortSignal.timeout(4000) })\
    .then(async (answer) => { console.log(await answer.text()); process.exitCode = answer.ok ? 0 : 1 })\
    .catch((error) => { console.log(String(error.cause ?? error)); process.exitCode = 1 })"]

ENTRYPOINT ["node", "/app/bin/toolgate.js"]
CMD ["serve"]
