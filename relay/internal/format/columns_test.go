package format

import "testing"

// Indents and columns of plain text are kept where a title makes it HTML.
func TestPlain_KeepsColumns(t *testing.T) {
	const source = "\n  pool: tank\n\tNAME  STATE\n a b\n\n"
	tab := noBreakSpace + noBreakSpace + noBreakSpace + noBreakSpace + noBreakSpace + noBreakSpace + noBreakSpace + noBreakSpace
	html, text := Body(Plain, source)
	if want := "  pool: tank\n\tNAME  STATE\n a b"; text != want {
		t.Errorf("text %q, want %q", text, want)
	}
	if want := noBreakSpace + noBreakSpace + "pool: tank<br>" + tab + "NAME" + noBreakSpace + noBreakSpace + "STATE<br>" + noBreakSpace + "a b"; html != want {
		t.Errorf("HTML %q, want %q", html, want)
	}
}

func TestTrimLines(t *testing.T) {
	for in, want := range map[string]string{"": "", " \n ": "", "a": "a", "\n \n  a\n b \n\n": "  a\n b", "\ta": "\ta", " \r\n a": " a"} {
		if got := TrimLines(in); got != want {
			t.Errorf("%q: %q", in, got)
		}
	}
}
