package dynamostore

import (
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"poold/internal/history"
)

// attribute returns the name of the attribute for a column. It returns "" if the key of the item contains the column.
func attribute(column string) string {
	switch column {
	case "id", "identity", "at":
		return ""
	case "type":
		return "captcha_type"
	case "owner":
		return "project"
	case "placed", "submitted", "solved", "ended":
		return column + "_at"
	default:
		return column
	}
}

// attributes returns the names of the attributes of the columns, followed by the names in the
// argument others.
func attributes(columns []history.Column, others ...string) []string {
	var names []string
	for _, c := range columns {
		if name := attribute(c.Name); name != "" {
			names = append(names, name)
		}
	}
	return append(names, others...)
}

// setColumns sets the attributes of the columns. It omits empty texts and zero times.
func (i item) setColumns(columns []history.Column) {
	for _, c := range columns {
		name := attribute(c.Name)
		if name == "" {
			continue
		}
		switch field := c.Field.(type) {
		case *string:
			i.setText(name, *field)
		case *time.Time:
			if !field.IsZero() {
				i.setText(name, stamp(*field))
			}
		case *int:
			i.setNumber(name, int64(*field))
		case *int64:
			i.setNumber(name, *field)
		case *bool:
			i[name] = &types.AttributeValueMemberBOOL{Value: *field}
		}
	}
}

// readColumns sets the fields of the columns from their attributes. It sets a field to its zero value
// if the attribute is missing or has another type.
func (i item) readColumns(columns []history.Column) {
	for _, c := range columns {
		name := attribute(c.Name)
		if name == "" {
			continue
		}
		switch field := c.Field.(type) {
		case *string:
			*field = i.text(name)
		case *time.Time:
			*field, _ = time.Parse(timestamp, i.text(name))
		case *int:
			*field = int(i.number(name))
		case *int64:
			*field = i.number(name)
		case *bool:
			b, ok := i[name].(*types.AttributeValueMemberBOOL)
			*field = ok && b.Value
		}
	}
}

// timestamp is the format of a time in whole milliseconds.
const timestamp = "2006-01-02T15:04:05.000Z"

// position returns the time and the ID as one text. These texts sort by time and then by ID.
func position(at time.Time, id string) string { return stamp(at) + "#" + id }

func stamp(at time.Time) string { return at.UTC().Format(timestamp) }

func (i item) setKey(pk, sk string) {
	i.setText("PK", pk)
	i.setText("SK", sk)
}

// setIndex sets the keys of the index, and the attribute status. The partition key of the index
// contains the status.
func (i item) setIndex(status history.Status, sk string) {
	i.setText("status", string(status))
	i.setText("GSI1PK", statusPrefix+string(status))
	i.setText("GSI1SK", sk)
}

func (i item) setText(name, value string) {
	if value != "" {
		i[name] = &types.AttributeValueMemberS{Value: value}
	}
}

func (i item) setNumber(name string, n int64) {
	i[name] = &types.AttributeValueMemberN{Value: strconv.FormatInt(n, 10)}
}

// text returns a string attribute. It returns "" if the attribute is missing or has another type.
func (i item) text(name string) string {
	if s, ok := i[name].(*types.AttributeValueMemberS); ok {
		return s.Value
	}
	return ""
}

// number returns a number attribute. It returns 0 if the attribute is missing or not a whole number.
func (i item) number(name string) int64 {
	if n, ok := i[name].(*types.AttributeValueMemberN); ok {
		if value, err := strconv.ParseInt(n.Value, 10, 64); err == nil {
			return value
		}
	}
	return 0
}
