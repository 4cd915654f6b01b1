// Apireference writes the reference of a service's HTTP API from its OpenAPI document:
//
//	go run ./tools/apireference relay/openapi/openapi.yml >docs/reference/relay-api.md
package main

import (
	"fmt"
	"os"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: apireference OPENAPI.YML")
		os.Exit(2)
	}
	source, err := os.ReadFile(os.Args[1])
	if err == nil {
		var page string
		if page, err = reference(source); err == nil {
			_, err = os.Stdout.WriteString(page)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "apireference:", err)
		os.Exit(1)
	}
}
