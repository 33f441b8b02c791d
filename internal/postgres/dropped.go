package postgres

import (
	"context"
	"regexp"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// undefinedTable is the SQLSTATE of a statement about a missing table.
const undefinedTable = "42P01"

// statement is one SQL statement of a step. Its field table names the table that the statement creates
// or changes; "" = none.
type statement struct{ table, sql string }

var (
	comment = regexp.MustCompile(`--[^\n]*`)
	about   = regexp.MustCompile(`^(?:create table|alter table|create (?:unique )?index (?:if not exists )?\w+\s+on) (\w+)`)
)

// statements splits a step into its SQL statements. The string literals of a step contain neither a semicolon nor "--".
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

// tables returns the names of the tables that the steps create or change, sorted and without duplicates.
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

// droppedStatements returns statements of applied steps, in the order of the steps. Each statement
// creates or changes a table that is missing in the database.
func droppedStatements(ctx context.Context, tx Tx, applied []step) ([]statement, error) {
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

// released contains the names of the tables in the files in sql/.
var released = tables(steps())

// missingTable returns the error for a missing table, with the name of the table. The server's text may
// be in any language, so missingTable searches the text for each name in released.
func missingTable(answer *pgconn.PgError) *fault {
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

// noTable returns the error for the missing table with the given name.
func noTable(name string) *fault {
	return &fault{reason: "the table " + name + " does not exist: poold history init makes it", down: true, lost: true}
}
