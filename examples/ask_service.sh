#!/bin/sh
# How a shop uses the service with curl.
#   examples/ask_service.sh [URL]        set API_KEY if the service requires a key
set -eu
service=${1:-http://127.0.0.1:8000}

ask() { # ask METHOD PATH [BODY]
    printf '\n%s %s\n' "$1" "$2"
    set -- --request "$1" "$service$2" ${3:+--data "$3"}
    curl --silent --show-error --fail-with-body --header 'Content-Type: application/json' \
        ${API_KEY:+--header "Authorization: Bearer $API_KEY"} "$@"
    echo
}

ask GET /readyz
ask GET /v1/model

# The three most popular items; take the first as an example.
ask GET '/v1/items?limit=3'
item=$(curl --silent ${API_KEY:+--header "Authorization: Bearer $API_KEY"} "$service/v1/items?limit=1" |
    sed 's/.*"id":"\([^"]*\)".*/\1/')

ask POST /v1/recommend "{\"history\": [\"$item\"], \"k\": 3, \"reasons\": true}"
ask POST /v1/outfits "{\"basket\": [\"$item\"], \"k\": 3}"
ask GET "/v1/items/$item/similar?k=3"

# An event counts in the next response. The id makes retries safe.
ask POST /v1/events "{\"events\": [{\"user\": \"example-customer\", \"item\": \"$item\", \"id\": \"visit-1\"}]}"
ask GET '/v1/users/example-customer/recommendations?k=3'
ask GET /v1/users/example-customer/history
ask DELETE /v1/users/example-customer
