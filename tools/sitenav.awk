# Prints the navigation of the documentation site: the sections and links of docs/README.md, in their order, each page once.
BEGIN { print "nav:\n  - docs/README.md" }
match($0, /^\*\*[^*]+\*\*/) { print "  - " substr($0, 3, RLENGTH - 4) ":"; indent = "    " }
{
	while (match($0, /\]\([^)]+/)) {
		page = substr($0, RSTART + 2, RLENGTH - 2)
		$0 = substr($0, RSTART + RLENGTH)
		sub(/#.*/, "", page)
		if (!sub(/^\.\.\//, "", page)) page = "docs/" page
		if (!seen[page]++) print "  " indent "- " page
	}
}
