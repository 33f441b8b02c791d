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
	shards       = 10
	typePrefix   = "TYPE#"
	targetPrefix = "TARGET#"
	dayPrefix    = "T" // both of them, and no other
)

// sum says which item of a day's shard has some figures.
type sum struct{ day, sortKey string }

// counts are figures by their attributes.
type counts map[string]int64

// addition is what something adds to figures.
type addition struct {
	sum
	names item // the attributes that say what the figures are of
	by    counts
}

// additions are what a record adds to the figures of its day.
func additions(r history.Record) []addition {
	day, by := date(r.Ended), counted(r.Figures())
	return []addition{
		{sum{day, typePrefix + string(r.Type)}, item{"captcha_type": &types.AttributeValueMemberS{Value: string(r.Type)}}, by},
		{sum{day, keyed(targetPrefix+unbroken.Replace(r.Target)+"#", r.Owner, mostSortKey)}, item{
			"target":  &types.AttributeValueMemberS{Value: r.Target},
			"project": &types.AttributeValueMemberS{Value: r.Owner},
		}, by},
	}
}

func date(at time.Time) string { return at.UTC().Format(time.DateOnly) }

func shardKey(day string, shard int) string { return fmt.Sprintf("STATS#%s#shard%d", day, shard) }

// unbroken keeps what divides a key out of a part of it.
var unbroken = strings.NewReplacer("%", "%25", "#", "%23")

// counted is figures as the attributes have them.
func counted(f history.Figures) counts {
	return counts{
		"total_solves":  f.Orders(),
		"successful":    f.Solved,
		"failed":        f.Orders() - f.Solved,
		"discarded":     f.Discarded,
		"refused":       f.Refused,
		"lost":          f.Lost,
		"total_elapsed": f.Elapsed.Milliseconds(),
		"spent":         f.Spent,
	}
}

// figures is the inverse of counted.
func (i item) figures() history.Figures {
	return history.Figures{
		Solved:    i.number("successful"),
		Discarded: i.number("discarded"),
		Failed:    i.number("failed") - i.number("discarded") - i.number("refused") - i.number("lost"),
		Refused:   i.number("refused"),
		Lost:      i.number("lost"),
		Elapsed:   time.Duration(i.number("total_elapsed")) * time.Millisecond,
		Spent:     i.number("spent"),
	}
}

// update adds to figures in a shard.
func (s *Store) update(a addition, shard int) *types.Update {
	key, numbers := item{}, item{}
	key.setKey(shardKey(a.day, shard), a.sortKey)
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
		TableName: aws.String(s.table), Key: key,
		UpdateExpression:         aws.String("SET " + assign(a.names, "%s = %s") + " ADD " + assign(numbers, "%s %s")),
		ExpressionAttributeNames: names, ExpressionAttributeValues: values,
	}
}

// Day implements history.Store.
func (s *Store) Day(ctx context.Context, day time.Time) (history.Day, error) {
	found := history.Day{Types: map[captcha.Type]history.Figures{}, Targets: map[history.Owned]history.Figures{}}
	err := s.sums(ctx, day, dayPrefix, []string{
		"SK", "captcha_type", "target", "project", "successful", "failed", "discarded", "refused", "lost", "total_elapsed", "spent",
	}, func(i item) { add(found, i) })
	if err != nil {
		return history.Day{}, s.down(ctx, "reading the figures of a day", err)
	}
	return found, nil
}

// sums reads attributes of the items of all shards of a day whose sort keys begin so.
func (s *Store) sums(ctx context.Context, day time.Time, prefix string, attributes []string, add func(item)) error {
	expression, names := projection(attributes...)
	names["#PK"], names["#SK"] = "PK", "SK"
	for shard := range shards {
		pages := dynamodb.NewQueryPaginator(s.client, &dynamodb.QueryInput{
			TableName: aws.String(s.table), KeyConditionExpression: aws.String("#PK = :pk AND begins_with(#SK, :prefix)"),
			ProjectionExpression: aws.String(expression), ExpressionAttributeNames: names,
			ExpressionAttributeValues: item{
				":pk": &types.AttributeValueMemberS{Value: shardKey(date(day), shard)}, ":prefix": &types.AttributeValueMemberS{Value: prefix},
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
	}
	return nil
}

// add adds an item of a shard to the day.
func add(day history.Day, i item) {
	if strings.HasPrefix(i.text("SK"), typePrefix) {
		kind := captcha.Type(i.text("captcha_type"))
		day.Types[kind] = day.Types[kind].Plus(i.figures())
		return
	}
	owned := history.Owned{Target: i.text("target"), Owner: i.text("project")}
	day.Targets[owned] = day.Targets[owned].Plus(i.figures())
}
