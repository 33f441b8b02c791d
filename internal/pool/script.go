package pool

import (
	"embed"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

//go:embed lua/*.lua
var sources embed.FS

// A script is one atomic step in Redis. Its text is common.lua, the shared files that its
// header lists under Uses, and its own file. The header also names the keys, the arguments,
// the fields of a reply in braces, and groups of arguments that repeat:
//
//	-- Uses    journal attempts
//	-- KEYS    orders journal, then one for each caller
//	-- ARGV    order lease_ms;
//	--         explanations follow a comma or a semicolon
//	-- WAITER  ticket arrival
//	-- Reply   {placed wait_ms}, or 0 if the order is gone
//
// newScript replaces names in the text by numbers, so that they cost Redis nothing:
// KEYS.journal becomes KEYS[2], ARGV.order ARGV[1], WAITER.arrival 2, and KEYS.size, the
// number of names, 2. A shared file uses the names of the script that includes it.
type script struct {
	*redis.Script
	name, text string
	keys, args []string
	fields     map[string]int // of the reply, by their names
}

// sharedFile begins the files that are part of scripts and none by themselves.
const sharedFile = "-- Shared: "

var (
	header      = regexp.MustCompile(`\A(?:--.*\n)*`)
	headerList  = regexp.MustCompile(`(?m)^-- (?:(Uses|[A-Z]{2,}) +|(Reply) +\{)([a-z0-9_]+(?:(?: |\n-- {3,})[a-z0-9_]+)*)`)
	headerBreak = regexp.MustCompile(`\n-- +`)
	scriptName  = regexp.MustCompile(`\b([A-Z]+)\.([a-z0-9_]+)\b`)
)

// newScript loads a script. constants are further names, such as LIMIT.endings, with their
// values. It panics if the text uses a name that is not declared.
func newScript(name string, constants map[string]string) *script {
	lists := headerOf(source(name + ".lua"))
	var text strings.Builder
	for _, part := range slices.Concat([]string{"common"}, lists["Uses"], []string{name}) {
		text.WriteString(resolveNames(part, source(part+".lua"), lists, constants) + "\n")
	}
	s := &script{Script: redis.NewScript(text.String()), name: name, text: text.String(), keys: lists["KEYS"], args: lists["ARGV"], fields: map[string]int{}}
	for i, field := range lists["Reply"] {
		s.fields[field] = i
	}
	return s
}

// headerOf reads the lists of names in a script's header, by their labels.
func headerOf(text string) map[string][]string {
	lists := map[string][]string{}
	for _, found := range headerList.FindAllStringSubmatch(header.FindString(text), -1) {
		lists[found[1]+found[2]] = strings.Fields(headerBreak.ReplaceAllString(found[3], " "))
	}
	return lists
}

// resolveNames replaces the names in the text of a file.
func resolveNames(file, text string, lists map[string][]string, constants map[string]string) string {
	numbers := map[string]string{}
	for label, names := range lists {
		form := "%d"
		if label == "KEYS" || label == "ARGV" {
			form = label + "[%d]"
		}
		for i, name := range names {
			numbers[label+"."+name] = fmt.Sprintf(form, i+1)
		}
		numbers[label+".size"] = strconv.Itoa(len(names))
	}
	return scriptName.ReplaceAllStringFunc(text, func(name string) string {
		if value, is := constants[name]; is {
			return value
		}
		if number, is := numbers[name]; is {
			return number
		}
		panic("pool: " + file + ".lua uses a name that no header declares: " + name)
	})
}

func source(name string) string {
	text, err := sources.ReadFile("lua/" + name)
	if err != nil {
		panic("pool: script missing from the binary: " + name)
	}
	return string(text)
}
