package dynamostore

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"poold/internal/captcha"
	"poold/internal/history"
)

const (
	statsPrefix  = "STATS#"
	typePrefix   = "TYPE#"
	targetPrefix = "TARGET#"
	dayPrefix    = "T" // first letter of typePrefix and targetPrefix, and of no other sort key of figures
)

// sum is the key of an item with figures.
type sum struct{ day, sortKey string }

// amounts maps the names of attributes to figures.
type amounts map[string]int64

// addition adds amounts to an item of figures.
type addition struct {
	sum
	names item // attributes that identify the figures
	by    amounts
}

// additions returns the amounts that a record adds to the figures of its day: to the item of its type
// and to the item of its target.
func additions(r history.Record) []addition {
	f := r.Figures()
	day, by := date(r.Ended), increments(f.Counts())
	by["total_solves"] = f.Orders()
	by["failed"] += f.Discarded + f.Lost
	return []addition{
		{sum{day, typePrefix + string(r.Type)}, item{"captcha_type": &types.AttributeValueMemberS{Value: string(r.Type)}}, by},
		{sum{day, prefixedKey(targetPrefix+unbroken.Replace(r.Target)+"#", r.Owner, mostSortKey)}, item{
			"target":  &types.AttributeValueMemberS{Value: r.Target},
			"project": &types.AttributeValueMemberS{Value: r.Owner},
		}, by},
	}
}

func date(at time.Time) string { return at.UTC().Format(time.DateOnly) }

// unbroken escapes the character that separates the parts of a key.
var unbroken = strings.NewReplacer("%", "%25", "#", "%23")

func figureAttribute(name string) string {
	switch name {
	case "solved":
		return "successful"
	case "elapsed_ms":
		return "total_elapsed"
	default:
		return name
	}
}

// increments returns figures by the name of their attribute.
func increments(counts []history.Count) amounts {
	by := amounts{}
	for _, c := range counts {
		by[figureAttribute(c.Name)] = *c.N
	}
	return by
}

// readCounts reads the figures from their attributes. It sets them through the pointers in the
// argument counts.
func (i item) readCounts(counts []history.Count) {
	for _, c := range counts {
		*c.N = i.number(figureAttribute(c.Name))
	}
}

// figures reads the figures of a type or of a target.
func (i item) figures() (f history.Figures) {
	i.readCounts(f.Counts())
	f.Failed -= f.Discarded + f.Lost
	return f
}

// update returns the update operation that adds the amounts to the item.
func (a addition) update(table string) *types.Update {
	key, numbers := item{}, item{}
	key.setKey(statsPrefix+a.day, a.sortKey)
	for name, n := range a.by {
		numbers.setNumber(name, n)
	}
	names, values := map[string]string{}, item{}
	assign := func(with item, format string) string {
		var parts []string
		for name, value := range with {
			names["#"+name], values[":"+name] = name, value
			parts = append(parts, fmt.Sprintf(format, "#"+name, ":"+name))
		}
		return strings.Join(parts, ", ")
	}
	return &types.Update{
		TableName: aws.String(table), Key: key,
		UpdateExpression:         aws.String("SET " + assign(a.names, "%s = %s") + " ADD " + assign(numbers, "%s %s")),
		ExpressionAttributeNames: names, ExpressionAttributeValues: values,
	}
}

// Day implements history.Store.
func (s *Store) Day(ctx context.Context, day time.Time) (history.Day, error) {
	found := history.Day{Types: map[captcha.Type]history.Figures{}, Targets: map[history.Owned]history.Figures{}}
	of := []string{"PK", "SK", "captcha_type", "target", "project"}
	err := s.readSums(ctx, day, dayPrefix, of, new(history.Figures).Counts(), func(i item) { addToDay(found, i) })
	if err != nil {
		return history.Day{}, s.downError(ctx, "reading the figures of a day", err)
	}
	return found, nil
}

// readSums reads those figures of a day whose sort keys begin with prefix, and calls the function add
// with each item. It reads the attributes of the figures in the argument `counts`, and the
// attributes in the argument `others`.
func (s *Store) readSums(ctx context.Context, day time.Time, prefix string, others []string, counts []history.Count, add func(item)) error {
	for _, c := range counts {
		others = append(others, figureAttribute(c.Name))
	}
	expression, names := projection(others...)
	names["#PK"], names["#SK"] = "PK", "SK"
	pages := dynamodb.NewQueryPaginator(s.client, &dynamodb.QueryInput{
		TableName: aws.String(s.table), KeyConditionExpression: aws.String("#PK = :pk AND begins_with(#SK, :prefix)"),
		ProjectionExpression: aws.String(expression), ExpressionAttributeNames: names,
		ExpressionAttributeValues: item{
			":pk": &types.AttributeValueMemberS{Value: statsPrefix + date(day)}, ":prefix": &types.AttributeValueMemberS{Value: prefix},
		},
	})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return err
		}
		for _, i := range page.Items {
			add(i)
		}
	}
	return nil
}

// addToDay adds an item of figures to the day. It skips the items of other programs, which lack the
// attribute spent.
func addToDay(day history.Day, i item) {
	if i["spent"] == nil {
		return
	}
	if strings.HasPrefix(i.text("SK"), typePrefix) {
		kind := captcha.Type(i.text("captcha_type"))
		day.Types[kind] = day.Types[kind].Plus(i.figures())
		return
	}
	owned := history.Owned{Target: i.text("target"), Owner: i.text("project")}
	day.Targets[owned] = day.Targets[owned].Plus(i.figures())
}
