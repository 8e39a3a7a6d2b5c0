#!/usr/bin/env bash
# Validates /openapi.json with the official validator, then sends what it allows, and what it does not, to a server: no reply is a 5xx (but the 503 of
# an answer that is not ready within its timeout_ms), and none has a status that is not described.
# Lines of JSON both ways, and events, are left to the tests of the project. Then searches with the official client of OpenAI.
# usage: scripts/check-http.sh [AGENT]     (needs python3 and a package index; keeps nothing)
set -euo pipefail
examples=${EXAMPLES:-50}
source "$(dirname "$0")/served.sh"

python3 -m venv "$work/venv"
"$work/venv/bin/pip" -q install schemathesis==4.32.5 openai==3.54.0 openapi-spec-validator==0.9.0
curl -fsS "$url/openapi.json" -o "$work/openapi.json"
"$work/venv/bin/openapi-spec-validator" "$work/openapi.json"
cat >"$work/schemathesis.toml" <<'TOML'
[checks.not_a_server_error]
expected-statuses = ["2xx", "3xx", "4xx", "503"]
TOML
(cd "$work" && "$work/venv/bin/schemathesis" --config-file "$work/schemathesis.toml" run "$url/openapi.json" --url "$url" --max-examples "$examples" \
    --checks not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance \
    --exclude-path '/v1/runs/{id}/events' --exclude-path /v1/batch --request-timeout 60 --generation-deterministic)
"$work/venv/bin/python" - "$url" <<'PYTHON'
import sys

from openai import OpenAI

client = OpenAI(base_url=sys.argv[1] + "/v1", api_key="none")
page = client.vector_stores.search("amazon", query="a durable steel bottle", max_num_results=3)
assert len(page.data) == 3, page
assert all(found.content[0].text for found in page.data)
print("openai:", [found.filename for found in page.data])
PYTHON
kill -0 "$server"
