package api

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"
)

// The headers of every answer, shared because net/http only reads them.
var (
	jsonType = []string{"application/json; charset=utf-8"}
	noStore  = []string{"no-store"}
	noSniff  = []string{"nosniff"}
)

// writeJSON answers with a value, with <, > and & as they are.
func writeJSON(w http.ResponseWriter, status int, v any) {
	var body bytes.Buffer
	encoder := json.NewEncoder(&body)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil { // these types always encode
		status = http.StatusInternalServerError
		body.WriteString(`{"error":"Internal Server Error","errorCode":500,"success":false}`)
	}
	h := w.Header()
	h["Content-Type"], h["Cache-Control"], h["X-Content-Type-Options"] = jsonType, noStore, noSniff
	h["Content-Length"] = []string{strconv.Itoa(body.Len())}
	w.WriteHeader(status)
	_, _ = w.Write(body.Bytes()) // a client that is gone needs no answer
}
