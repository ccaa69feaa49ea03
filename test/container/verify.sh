#!/usr/bin/env bash
# Builds the image and checks what it promises. Needs bash 4.4, curl, and docker or what is named instead:
#   test/container/verify.sh [podman]
# BUILD_FLAGS go to the build. Containers are removed again, the image stays.
set -euo pipefail
cd "$(dirname "$0")/../.."

engine=${1:-docker}
image=toolgate:verify
key=0123456789abcdef-verify
export BUILDAH_FORMAT=docker # podman's own format has no place for a health check
read -ra build_flags <<< "${BUILD_FLAGS:-}"

work=$(mktemp -d)
containers=()
trap '"$engine" rm -f -v "${containers[@]}" >/dev/null 2>&1 || true; rm -rf "$work"' EXIT

failures=0
check () { # what it is, what is expected (a glob), what there is
  # shellcheck disable=SC2053
  if [[ $3 == $2 ]]; then printf 'ok    %s: %.100s\n' "$1" "${3//$'\n'/ }"
  else printf 'WRONG %s: expected %s, got %s\n' "$1" "$2" "$3"; failures=$((failures + 1)); fi
}

# start NAME FLAG…: sets $container and $address, and waits for the gateway.
start () {
  container="toolgate-verify-$1-$$"; shift
  containers+=("$container")
  "$engine" run -d --name "$container" -p 127.0.0.1::"${port:-8080}" "$@" "$image" >/dev/null
  address=http://$("$engine" port "$container" "${port:-8080}/tcp" | head -1)
  for _ in $(seq 100); do
    if curl -sf "$address/readyz" >/dev/null; then return; fi
    sleep 0.1
  done
  "$engine" logs "$container" >&2
  echo "$container does not get ready" >&2
  exit 1
}
status () { curl -s -o /dev/null -w '%{http_code}' "$@"; }
call () { curl -s -H "authorization: Bearer $key" -H 'content-type: application/json' "$address/tools/$1/invoke" -d "$2"; }
inside () { "$engine" exec "$container" "$@"; }

"$engine" build "${build_flags[@]}" -t "$image" .

echo '--- without a key'
check 'exit code' 1 "$("$engine" run --rm "$image" >"$work/refusal" 2>&1; echo $?)"
check 'message' '*TOOLGATE_API_KEY: needed to listen on 0.0.0.0*' "$(cat "$work/refusal")"

echo '--- as compose.yaml runs it'
start locked -e "TOOLGATE_API_KEY=$key" --read-only --tmpfs /tmp --cap-drop ALL --security-opt no-new-privileges
check '/readyz' '{"status":"ready"*' "$(curl -s "$address/readyz")"
check '/tools without the key' 401 "$(status "$address/tools")"
check '/tools with it' 200 "$(status -H "authorization: Bearer $key" "$address/tools")"
check 'process 1' 'node /app/bin/toolgate.js serve ' "$(inside cat /proc/1/cmdline | tr '\0' ' ')"
check 'its user and group' $'Uid:\t1000\t1000\t1000\t1000\nGid:\t1000\t1000\t1000\t1000' "$(inside grep -E '^[UG]id' /proc/1/status)"
check 'convert_units' '*100 km = 62.1*"isError":false*' "$(call convert_units '{"input":{"value":100,"from":"km","to":"mi"}}')"
check 'convert_units, refusing' '*"isError":true*' "$(call convert_units '{"input":{"value":1,"from":"km","to":"kg"}}')"
check 'get_status' '*The service is running*"isError":false*' "$(call get_status '{}')"
check 'inspect_lesson' '*"isError":false*' "$(call inspect_lesson '{}')"
check 'profile_csv' '*"rows":2*"isError":false*' "$(call profile_csv '{"input":{"csv":"city,people\nBern,134794\nBasel,173863\n"}}')"
check 'describe_measurements' '*"unit":"°C"*"max":20*"isError":false*' "$(call describe_measurements '{"input":{"csv":"x\n14\n68\n","column":"x","from":"°F","to":"°C"}}')"
check 'take_note' '*"number":1,*"isError":false*' "$(call take_note '{"input":{"text":"first","tags":["a"]}}')"
check 'take_note, again' '*"number":2,*"isError":false*' "$(call take_note '{"input":{"text":"second"}}')"
check 'read_notes' '*"text":"first"*"matching":1}*"isError":false*' "$(call read_notes '{"input":{"tag":"a"}}')"
check 'what they left' 'notes.json' "$(inside ls -A /data)"
check '/data can be written' 0 "$(inside sh -c 'echo x > /data/probe'; echo $?)"
check 'nothing else of ours can' '' "$(inside find /app -writable ! -type l)"

mapfile -t health < <("$engine" inspect --format '{{range .Config.Healthcheck.Test}}{{println .}}{{end}}' "$container")
health=("${health[@]:1:3}") # without the CMD before it
check 'health' '{"status":"ready"*' "$(inside "${health[@]}")"
check 'health with nothing there' '*ECONNREFUSED*, exit code 1' "$("$engine" run --rm --entrypoint "${health[0]}" "$image" "${health[@]:1}" || echo ", exit code $?")"

echo '--- what is in it'
check 'dev dependencies' '' "$(inside node -p '
  const { dependencies, devDependencies } = require("./package.json")
  Object.keys(devDependencies).filter((name) => !(name in dependencies) && fs.existsSync("node_modules/" + name)).join()')"
check 'folders' 'LICENSE bin dist node_modules package.json tools ' "$(inside ls /app | tr '\n' ' ')"
check 'bytes, all layers' '*' "$("$engine" image inspect --format '{{.Size}}' "$image")"

echo '--- writable, at another port, with tools of its own'
cat > "$work/slow.ts" <<'TOOL'
import { setTimeout } from 'node:timers/promises'
import { Type } from '@sinclair/typebox'
import { defineTool } from 'toolgate'

export default defineTool({
  id: 'slow',
  description: 'Takes a while.',
  kind: 'read',
  parameters: Type.Object({}),
  async execute () {
    await setTimeout(3000)
    return { content: [{ type: 'text', text: 'done' }] }
  }
})
TOOL
chmod -R a+rX "$work"
port=9000 start open -e "TOOLGATE_API_KEY=$key" -e TOOLGATE_PORT=9000 -v "$work:/app/tools:ro"
check 'health' '{"status":"ready"*' "$(inside "${health[@]}")"

curl -sN -H "authorization: Bearer $key" "$address/events" >"$work/events" & events=$!
for _ in $(seq 50); do grep -q connected "$work/events" && break; sleep 0.1; done
call slow '{}' >"$work/answer" & answer=$!
sleep 1
"$engine" kill --signal TERM "$container" >/dev/null
sleep 0.5
check 'health while draining' '*"shutting_down"*, exit code 1' "$(inside "${health[@]}" || echo ", exit code $?")"
check 'exit code' 0 "$("$engine" wait "$container")"
wait "$answer" "$events" || true
check 'the call that ran' '*"text":"done"*"isError":false*' "$(cat "$work/answer")"
check 'its events' '*event: tool_execution_start*event: tool_execution_end*"isError":false*' "$(cat "$work/events")"
# Mount points, and what the engine itself puts there, apart.
check 'files written beside /data' '' "$("$engine" diff "$container" | grep -vE '^. /((app|app/tools|data)$|(dev|etc|proc|run|sys)(/|$))' || true)"

[ "$failures" -eq 0 ] && echo 'all is well'
