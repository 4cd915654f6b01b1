# Makes tabs of the lines between <!--tabs--> and <!--/tabs-->, for the documentation site: each line that is bold text alone begins
# a tab. Elsewhere the parts follow each other below these lines.
function fail(why) {
	print FILENAME ":" FNR ": " why >"/dev/stderr"
	failed = 1
	exit 1
}
/^ *```/ { fenced = !fenced }
fenced { print (open ? "    " : "") $0; next }
/^ *<!--tabs-->/ {
	if (open) fail("tabs inside tabs")
	open = 1
	count = 0
	print ""
	next
}
/^ *<!--\/tabs-->/ {
	if (!open) fail("the end of tabs without their beginning")
	if (count < 2) fail("a set of one tab")
	open = 0
	print ""
	next
}
open && /^\*\*[^*]+\*\*$/ {
	print "===" (count++ ? "" : "!") " \"" substr($0, 3, length($0) - 4) "\""
	next
}
open && /^#/ { fail("a heading in a tab, which no link could reach") }
open && NF && !count { fail("text before the first tab") }
{ print (open && NF ? "    " : "") $0 }
END { if (open && !failed) fail("tabs without an end") }
