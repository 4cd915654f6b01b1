package signature

// Verdict is the state of a manifest under a policy. A greater one is better.
type Verdict int

// The verdicts.
const (
	Unsigned   Verdict = iota // there is no signature of it
	Unverified                // there are signatures, none of which the rule accepts
	Exempt                    // it needs no signature: it is one, or an attestation or SBOM, which no one can run, or no rule names the repository
	Verified                  // a key or identity of the rule has signed it, or an index that contains it
)

// Result is the verdict on a manifest, and whether the rule refuses those that are not signed.
type Result struct {
	Verdict Verdict
	Cause   string // of Unverified: why a certificate isn't accepted, for the log; "" if there is none
	Refuse  bool
}

func better(a, b Result) Result {
	if b.Verdict > a.Verdict {
		return b
	}
	return a
}

// OK reports whether the manifest may be served without a warning.
func (r Result) OK() bool { return r.Verdict >= Exempt }

// Word is the verdict in a word for people, "" for Exempt.
func (r Result) Word() string {
	return [...]string{"unsigned", "unverified", "", "verified"}[r.Verdict]
}

// Reason explains the verdict to people, "" for Exempt.
func (r Result) Reason() string {
	return [...]string{
		"the manifest is not signed, and policy.signatures wants a signature",
		"the manifest is signed, but by no key or identity of policy.signatures",
		"",
		"signed by a key or identity of policy.signatures, or in an index that is",
	}[r.Verdict]
}
