package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"slipway/shared/programtest"
)

// TestPages: the pages are those of the documents.
func TestPages(t *testing.T) {
	root := programtest.Root(t)
	documents, err := filepath.Glob(filepath.Join(root, "*", "openapi", "openapi.yml"))
	if err != nil || len(documents) == 0 {
		t.Fatalf("%v, %v", documents, err)
	}
	for _, file := range documents {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		want, err := reference(source)
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		name := "docs/reference/" + filepath.Base(filepath.Dir(filepath.Dir(file))) + "-api.md"
		if got, err := os.ReadFile(filepath.Join(root, name)); err != nil || string(got) != want {
			t.Errorf("%s (%v) is not the page about %s: run make docs", name, err, file)
		}
	}
}

const small = `
info: {title: Shop, description: Sells.}
tags: [{name: item, description: Things to buy}]
security: [{key: []}]
paths:
  /item/{id}:
    parameters: &id
      - {name: id, in: path, required: true, schema: {type: integer}}
    put:
      tags: [item]
      summary: Change an item
      description: Once.
      parameters: [{name: force, in: query, description: "a | b", schema: {$ref: "#/components/schemas/Colour"}}]
      requestBody:
        content:
          application/json:
            schema: {$ref: "#/components/schemas/Item"}
            examples: {one: {value: {name: it's}}}
      responses:
        "200":
          description: The item
          content: {application/json: {schema: {$ref: "#/components/schemas/Sold"}}}
        "404": {$ref: "#/components/responses/Problem"}
        default: {$ref: "#/components/responses/Problem"}
    get:
      tags: [item]
      summary: Show an item
      security: [{}]
      responses: {"200": {description: A picture, content: {image/png: {}}}}
  /item:
    parameters: *id
    post:
      tags: [item]
      summary: Add an item
      requestBody: {content: {application/json: {schema: {$ref: "#/components/schemas/Item"}}}}
      responses: {"201": {description: Added, headers: {Location: {description: Its address}}}}
components:
  securitySchemes: {key: {type: http, scheme: bearer, description: A key}}
  responses: {Problem: {description: What is wrong}}
  schemas:
    Colour: {type: string, enum: [red, ""], default: red}
    Price: {type: integer, minimum: 1, maximum: 9, description: In cents}
    Item:
      type: object
      required: [name, colours]
      properties:
        name: {type: [string, "null"], maxLength: 10}
        colours: {type: array, items: {$ref: "#/components/schemas/Colour"}}
        price: {$ref: "#/components/schemas/Price"}
        parts: {type: array, items: {type: object, properties: {size: {type: number, deprecated: true}}}}
    Sold:
      allOf:
        - {$ref: "#/components/schemas/Item"}
        - {type: object, required: [at], properties: {at: {type: string, format: date-time}}}
`

func TestReference(t *testing.T) {
	page, err := reference([]byte(small))
	if err != nil {
		t.Fatal(err)
	}
	after := 0
	for _, want := range []string{
		"# HTTP API of the shop\n\nSells.\n", "| key | `Authorization: Bearer TOKEN` | A key |\n", "## Failures\n\nWhat is wrong.\n", "## Things to buy\n",
		"### PUT /item/{id}\n\nChange an item. Once.\n\nLog in with: key.\n",
		`curl -X PUT -H 'Authorization: Bearer TOKEN' -H 'Content-Type: application/json' -d '{"name":"it'\''s"}' https://shop.example.org/item/1` + "\n",
		"| **`id`** | path | integer |  |\n| `force` | query | [Colour](#colour) | a \\| b |\n", "Body, `application/json`: [Item](#item).\n",
		"**200**: The item. Body: [Sold](#sold).\n\n[Failures](#failures): 404, others.\n",
		"### GET /item/{id}\n\nShow an item.\n\nLog in with: nothing.\n", "curl https://shop.example.org/item/1\n", "**200**: A picture. As `image/png`.\n",
		"### POST /item\n", `-d '{"colours":["red"],"name":"NAME"}'`, "**201**: Added. Header `Location`: Its address.\n",
		"### Colour\n\n`red` or empty, default red.\n",
		"### Item\n\n", "| **`name`** | text or null, 10 characters at most |  |\n| **`colours`** | list of [Colour](#colour) |  |\n| `price` | integer, 1 to 9 | In cents |\n",
		"| `parts[].size` | number | Deprecated. |\n",
		"### Sold\n\n", "| **`name`** |", "| **`at`** | time (RFC 3339) |  |\n",
	} {
		i := strings.Index(page[after:], want)
		if i < 0 {
			t.Fatalf("no %q after byte %d of\n%s", want, after, page)
		}
		after += i
	}
	for _, wrong := range []string{"", "info: [", "info: {title: x}"} {
		if _, err := reference([]byte(wrong)); err == nil {
			t.Errorf("%q is a document", wrong)
		}
	}
}
