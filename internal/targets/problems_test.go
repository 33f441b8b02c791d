package targets

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"poold/internal/testkit"
)

// canary is used as each secret. No problem may contain this text.
const canary = "CANARY"

// environment reads the lines "# env NAME=value" of a test file.
func environment(data []byte) References {
	var pairs []string
	for _, m := range regexp.MustCompile(`(?m)^# env (\w+)=(.*)$`).FindAllSubmatch(data, -1) {
		pairs = append(pairs, string(m[1]), string(m[2]))
	}
	return lookupOf(pairs...)
}

// caseFile is one file of a txtar in testdata.
type caseFile struct {
	name, written string
	data          []byte // what is written, with the byte 27 in place of <0x1B>
}

var escapedByte = regexp.MustCompile(`<0x([0-9A-F]{2})>`)

// caseFiles reads the files of a txtar: "-- NAME --", the file, "-- want --" and what Parse says.
func caseFiles(t testing.TB, path string) (all []caseFile) {
	t.Helper()
	text, err := os.ReadFile(path)
	testkit.NoError(t, err)
	marks := regexp.MustCompile(`(?m)^-- (.+) --\n`).FindAllSubmatchIndex(text, -1)
	for i := 0; i+1 < len(marks); i += 2 {
		written := text[marks[i][1]:marks[i+1][0]]
		data := escapedByte.ReplaceAllFunc(written, func(code []byte) []byte {
			n, _ := strconv.ParseUint(string(code[3:5]), 16, 8)
			return []byte{byte(n)}
		})
		all = append(all, caseFile{string(text[marks[i][2]:marks[i][3]]), string(written), data})
	}
	if len(all) < 40 {
		t.Fatalf("only %d files in %s", len(all), path)
	}
	return all
}

// checkFiles compares what Parse says about each file, and writes it with -update.
func checkFiles(t *testing.T, path string, say func(file caseFile) string) {
	t.Helper()
	var written strings.Builder
	for _, file := range caseFiles(t, path) {
		got := say(file)
		fmt.Fprintf(&written, "-- %s --\n%s-- want --\n%s", file.name, file.written, got)
		if strings.Contains(got, canary) {
			t.Errorf("%s: a message shows a secret:\n%s", file.name, got)
		}
	}
	testkit.Published(t, path, written.String())
}

// Parse returns the exact problems of every invalid file.
func TestBadFilesGiveExactProblems(t *testing.T) {
	checkFiles(t, "testdata/bad.txtar", func(file caseFile) string {
		set, err := Parse("pools.yaml", file.data, environment(file.data))
		if err == nil || set != nil {
			return fmt.Sprintf("accepted: %+v\n", set)
		}
		return err.Error() + "\n"
	})
}

// An unusual file is accepted, and Parse returns the exact warnings.
func TestGoodFilesGiveExactWarnings(t *testing.T) {
	checkFiles(t, "testdata/good.txtar", func(file caseFile) string {
		set, err := Parse("pools.yaml", file.data, environment(file.data))
		if err != nil {
			return "refused: " + err.Error() + "\n"
		}
		return warnings(set)
	})
}

// The problem of a syntax error has the right line.
func TestSyntaxErrorsNameTheLine(t *testing.T) {
	for text, want := range map[string]string{
		"server: |\n  x\n\tlisten: 127.0.0.1:8080\n": "pools.yaml:3: a tab indents the line: indent with spaces",
		strings.Repeat("[", 10001): "pools.yaml:1: the line does not fit the ones above: " +
			"indent it like its neighbours, quote values whole, and close every quote above",
	} {
		if _, err := Parse("pools.yaml", []byte(text), References{}); err == nil || err.Error() != want {
			t.Errorf("%.40q: %v, want %s", text, err, want)
		}
	}
}

// For a file with very many faults, Parse returns at most 200 problems and the number of the
// remaining faults.
func TestProblemsAreCapped(t *testing.T) {
	_, err := Parse("pools.yaml", []byte(minimal()+strings.Repeat("    x y: 1\n    z: 2\n", 400)), References{})
	var problems Problems
	if !errors.As(err, &problems) || len(problems) != 201 {
		t.Fatalf("%d problems", len(problems))
	}
	testkit.Equal(t, "the last one",
		problems[200].String(), fmt.Sprintf("pools.yaml:%d: and 600 more problems", problems[199].Line+1))
}
