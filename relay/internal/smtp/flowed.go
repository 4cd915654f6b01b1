package smtp

import "strings"

// unflow joins the lines of a text with format=flowed that end with a soft break (RFC 3676). deleteSpace is its parameter DelSp.
func unflow(s string, deleteSpace bool) string {
	var out strings.Builder
	depth, soft := 0, false
	for i, line := range strings.Split(s, "\n") {
		quoted := len(line) - len(strings.TrimLeft(line, ">"))
		text := strings.TrimPrefix(line[quoted:], " ") // stuffed
		isSignature := text == "-- "
		switch {
		case soft && quoted == depth && !isSignature:
		case i > 0:
			out.WriteByte('\n')
			fallthrough
		default:
			if quoted > 0 {
				out.WriteString(line[:quoted] + " ")
			}
		}
		depth, soft = quoted, strings.HasSuffix(text, " ") && !isSignature
		if soft && deleteSpace {
			text = text[:len(text)-1]
		}
		out.WriteString(text)
	}
	return out.String()
}
