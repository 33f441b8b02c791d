package history_test

import (
	"cmp"
	"os"
	"regexp"
	"strings"
	"testing"

	"poold/internal/testkit"
)

// A group is a comment in row.go with the fields that it describes.
var (
	group  = regexp.MustCompile("((?:\t// .*\n)+)((?:\t\\w.*\n)+)")
	column = regexp.MustCompile("\t\\w+ +(\\S+) +`json:\"(\\w+)\"`")
	link   = regexp.MustCompile(`\[(.*?)\]\(.*?\)`)
)

// newColumns has the schema of a new column by its type; any other one is a text.
var newColumns = map[string]string{
	"Time": "$ref: '#/components/schemas/TimeOrNone'", "Money": "$ref: '#/components/schemas/Money'",
	"int": "$ref: '#/components/schemas/Count'", "int64": "$ref: '#/components/schemas/Count'", "bool": "type: boolean",
}

// docs/history.md and openapi.yaml have the columns and comments of row.go. What else a schema says of a column, such
// as its pattern, stays.
func TestCompleteColumns(t *testing.T) {
	const page, api = "../../docs/history.md", "../httpapi/openapi/openapi.yaml"
	texts := map[string]string{}
	for _, file := range []string{"row.go", page, api} {
		text, err := os.ReadFile(file)
		testkit.NoError(t, err)
		texts[file] = string(text)
	}
	between := func(file, first, last string) string {
		_, text, _ := strings.Cut(texts[file], first)
		text, _, _ = strings.Cut(text, last)
		return text
	}
	sentence := func(comment string) string { // in YAML
		comment = strings.ToUpper(comment[:1]) + link.ReplaceAllString(comment[1:], "$1") + "."
		return "'" + strings.ReplaceAll(comment, "'", "''") + "'"
	}
	for row, schema := range map[string]string{"Order": "OrderMembers", "Handout": "Handout"} {
		fields := between("row.go", "\ntype "+row+" struct {\n", "}\n")
		list := between(page, "<!-- row.go:"+row+" -->\n", "\n\n")
		members := regexp.MustCompile("\n    " + schema + ":\n(?:      .*\n)+").FindString(texts[api])
		lines, properties, all := "", "", []string(nil)
		for _, g := range group.FindAllStringSubmatch(fields, -1) {
			comment := strings.Join(strings.Fields(strings.ReplaceAll(g[1], "\t// ", "")), " ")
			var names []string
			for _, f := range column.FindAllStringSubmatch(g[2], -1) {
				names = append(names, f[2])
				old := regexp.MustCompile(`\n        ` + f[2] + `: \{(.*?)(, description: .*)?\}\n`).FindStringSubmatch(members)
				rules := cmp.Or(append(old, "", "")[1], newColumns[f[1]], "type: string")
				if !strings.HasPrefix(rules, "$") {
					rules += ", description: " + sentence(comment)
				}
				properties += "        " + f[2] + ": {" + rules + "}\n"
			}
			lines += testkit.Wrapped("- `"+strings.Join(names, "`, `")+"`: "+comment, "  ")
			all = append(all, names...)
		}
		testkit.Equal(t, "columns below a comment", len(all), strings.Count(fields, "json:"))
		head, _, _ := strings.Cut(members, "required:")
		texts[page] = strings.Replace(texts[page], list+"\n", lines, 1)
		texts[api] = strings.Replace(texts[api], members, head+testkit.Wrapped("required: ["+strings.Join(all, ", ")+"]",
			"        ")+"      properties:\n"+properties, 1)
	}
	testkit.Published(t, page, texts[page])
	testkit.Published(t, api, texts[api])
}
