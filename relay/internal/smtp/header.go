package smtp

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/textproto"
	"strconv"
	"strings"
)

// readHeader reads a header up to the first line that isn't one, which begins the text, as other servers do. Without any field of a mail all
// is text.
func readHeader(from *bufio.Reader) (header textproto.MIMEHeader, body io.Reader, err error) {
	header = textproto.MIMEHeader{}
	var raw, value bytes.Buffer
	name, isMail := "", false
	add := func() {
		if name != "" {
			header.Add(name, strings.TrimSpace(value.String()))
		}
		name = ""
		value.Reset()
	}
	for {
		line, err := from.ReadString('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, nil, err
		}
		raw.WriteString(line)
		if raw.Len() == 0 {
			return nil, nil, io.ErrUnexpectedEOF
		}
		text := strings.TrimRight(line, "\r\n")
		field, rest, isField := strings.Cut(text, ":")
		field = strings.TrimRight(field, " \t")
		switch {
		case raw.Len() == len(line) && isMailbox(text):
			isMail = true
		case text != "" && strings.Trim(text[:1], " \t") == "" && name != "":
			value.WriteString(" " + strings.TrimSpace(text))
		case isField && isFieldName(field):
			add()
			name = textproto.CanonicalMIMEHeaderKey(field)
			isMail = isMail || ofMail(name)
			value.WriteString(rest)
		default:
			add()
			switch {
			case !isMail:
				return textproto.MIMEHeader{}, io.MultiReader(&raw, from), nil
			case text == "":
				return header, from, nil
			}
			return header, io.MultiReader(strings.NewReader(line), from), nil
		}
	}
}

// isMailbox reports whether a line is the one that a mailbox file has before a mail: From SENDER and a date.
func isMailbox(line string) bool {
	words := strings.Fields(line)
	if len(words) < 7 || words[0] != "From" {
		return false
	}
	_, err := strconv.Atoi(words[len(words)-1])
	return err == nil
}

// isFieldName reports whether s may be the name of a field (RFC 5322, section 2.2).
func isFieldName(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' })
}

// ofMail reports whether a field makes a text a mail. A line of a text such as "Backup: failed" doesn't.
func ofMail(name string) bool {
	switch name {
	case "Subject", "From", "To", "Cc", "Date", "Message-Id", "Mime-Version", "Received", "Return-Path", "Reply-To", "Sender", "Auto-Submitted", "Importance", "Priority":
		return true
	}
	kind, _, _ := strings.Cut(name, "-")
	return kind == "Content" || kind == "X" || kind == "Resent" || kind == "List"
}
