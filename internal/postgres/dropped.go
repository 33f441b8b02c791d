package postgres

import (
	"context"
	"regexp"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// undefinedTable is the SQLSTATE of a missing table.
const undefinedTable = "42P01"

// statement is one statement of a step.
type statement struct{ table, sql string }

var (
	comment = regexp.MustCompile(`--[^\n]*`)
	about   = regexp.MustCompile(`^(?:create table|alter table|create (?:unique )?index (?:if not exists )?\w+\s+on) (\w+)`)
)

// statements splits a step. Its texts contain neither a semicolon nor a comment.
func (s step) statements() []statement {
	var all []statement
	for sql := range strings.SplitSeq(comment.ReplaceAllString(s.sql, ""), ";") {
		sql = strings.TrimSpace(sql)
		if sql == "" {
			continue
		}
		one := statement{sql: sql}
		if found := about.FindStringSubmatch(sql); found != nil {
			one.table = found[1]
		}
		all = append(all, one)
	}
	return all
}

// tables lists the tables of some steps, each once and sorted.
func tables(of []step) []string {
	var names []string
	for _, step := range of {
		for _, s := range step.statements() {
			if s.table != "" {
				names = append(names, s.table)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// dropped returns the statements of applied steps about tables that the database lacks, in the order of the steps.
func dropped(ctx context.Context, tx Tx, applied []step) ([]statement, error) {
	if len(applied) == 0 {
		return nil, nil
	}
	lacks := map[string]bool{}
	var name string
	err := tx.Each(ctx, []any{&name}, func() { lacks[name] = true }, `select name from unnest($1::text[]) name
		where not exists (select from pg_class where relname = name and pg_table_is_visible(oid))`, tables(applied))
	var again []statement
	for _, step := range applied {
		for _, s := range step.statements() {
			if lacks[s.table] {
				again = append(again, s)
			}
		}
	}
	return again, err
}

// released lists the tables of the released files.
var released = tables(steps())

// missing returns the error of a missing table, with its name. It searches the server's text, which may be in any
// language, for the name of a released table.
func missing(answer *pgconn.PgError) *fault {
	named := ""
	for _, table := range released {
		if len(table) > len(named) && strings.Contains(answer.Message, table) {
			named = table
		}
	}
	if named == "" {
		return refusal(answer.Code)
	}
	return noTable(named)
}

// noTable returns the error of a missing table.
func noTable(name string) *fault {
	return &fault{reason: "the table " + name + " does not exist: poold history init makes it", down: true, lost: true}
}
