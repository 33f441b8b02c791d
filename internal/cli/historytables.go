package cli

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// unlisted contains the columns of a record that lists omit.
var unlisted = []string{"owner", "sitekey", "pageurl", "status", "submitted_at", "solved_at", "choice"}

// historyTable formats the daemon's CSV as a table. If single is true, the answer has one record,
// and the table has a line for each of its fields.
func historyTable(header http.Header, answer []byte, single bool) (string, error) {
	rows, err := csv.NewReader(bytes.NewReader(answer)).ReadAll()
	if err == nil && (len(rows) == 0 || !strings.HasPrefix(header.Get("Content-Type"), "text/csv")) {
		err = errors.New("it is no CSV")
	}
	if err != nil {
		return "", fmt.Errorf("reading the daemon's answer: %w", err)
	}
	if len(rows) == 1 {
		return "nothing is recorded\n", nil
	}
	t := &table{}
	for n, row := range rows {
		var cells []any
		for i, name := range rows[0] {
			cell := row[i]
			if n == 0 {
				cell = strings.ToUpper(strings.ReplaceAll(name, "_", " "))
			}
			if len(cell) > 1 && cell[0] == '\'' && strings.ContainsRune("=+-@\t\r", rune(cell[1])) {
				cell = cell[1:] // the daemon has escaped a formula
			}
			switch {
			case single && n > 0:
				t.plainRow(name, cell)
			case rows[0][0] != "id" || !slices.Contains(unlisted, name):
				cells = append(cells, cell)
			}
		}
		if !single {
			t.plainRow(cells...)
		}
	}
	return t.text(0), nil
}
