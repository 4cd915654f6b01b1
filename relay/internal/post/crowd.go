package post

// Crowd is the part of a report in a request about a group of alerts. A large group has one message of its own, which stands for the alerts that have
// none.
type Crowd int

// The parts of a notification. An entry for the whole group follows those of its alerts.
const (
	CrowdAlone       Crowd = iota
	CrowdOneOfFew          // unless the group has a message already, it has one of its own
	CrowdOneOfMany         // only what has a message already goes on with it
	CrowdWhole             // of many: it has a message
	CrowdWholeIfOpen       // of few: it goes on with the message of the group
)

// Skips reports whether a report in the group has no message and no edit: the message of the group has its words, or isn't needed. open
// reports whether the alert is, group whether that of the group is, which matters for CrowdOneOfFew only.
func (c Crowd) Skips(open, group bool) bool {
	switch c {
	case CrowdOneOfMany, CrowdWholeIfOpen:
		return !open
	case CrowdOneOfFew:
		return !open && group
	}
	return false
}

// CrowdKey names the alert of a group; "" if the group has no name.
func CrowdKey(group string) string {
	if group == "" {
		return ""
	}
	return "group:" + group
}

// GroupThread returns the beginning of the names of a group's threads. Each goes on with the time at which it began.
func GroupThread(group string) string { return "group:" + group + ":" }
