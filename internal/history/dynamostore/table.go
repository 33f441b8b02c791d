package dynamostore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

const (
	ttlAttribute = "ttl"
	tableKeys    = "PK (S), SK (S)"
	indexKeys    = "GSI1PK (S), GSI1SK (S)"
	// createLimit limits the wait until a new table can be used.
	createLimit = 5 * time.Minute
)

// Check compares the table with the shape that the store needs. If the table cannot be read, the
// error is a history.ErrDown. If the table has another shape, the error names all differences.
func (s *Store) Check(ctx context.Context) error {
	const doing = "looking at the table"
	table, err := s.client.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: aws.String(s.table)})
	if err != nil {
		return s.downError(ctx, doing, err)
	}
	expiry, err := s.expiry(ctx)
	if err != nil {
		return s.downError(ctx, doing, err)
	}
	return s.differenceError(append(shapeDifferences(table.Table), expiryDifferences(expiry)...))
}

// Init creates the table, its index and its time to live. If stream is true, Init also creates a stream
// of new images. Init keeps existing parts. If an existing part has a wrong shape, Init changes nothing
// and its error names all differences.
func (s *Store) Init(ctx context.Context, stream bool) error {
	if err := s.create(ctx, stream); err != nil {
		return s.downError(ctx, "making the table", err)
	}
	table, err := s.waitActive(ctx)
	if err != nil {
		return s.downError(ctx, "waiting for the table", err)
	}
	expiry, err := s.expiry(ctx)
	if err != nil {
		return s.downError(ctx, "looking at the table", err)
	}
	differences := shapeDifferences(table)
	if b := table.BillingModeSummary; b == nil || b.BillingMode != types.BillingModePayPerRequest {
		differences = append(differences, "its billing is provisioned, not on demand")
	}
	if expiry != "" {
		differences = append(differences, expiryDifferences(expiry)...)
	}
	view := table.StreamSpecification
	streams := view != nil && aws.ToBool(view.StreamEnabled)
	if stream && streams && view.StreamViewType != types.StreamViewTypeNewImage {
		differences = append(differences, fmt.Sprintf("its stream shows %s, not %s", view.StreamViewType, types.StreamViewTypeNewImage))
	}
	if len(differences) > 0 {
		return s.differenceError(differences)
	}
	if expiry == "" {
		if _, err := s.client.UpdateTimeToLive(ctx, &dynamodb.UpdateTimeToLiveInput{
			TableName:               aws.String(s.table),
			TimeToLiveSpecification: &types.TimeToLiveSpecification{AttributeName: aws.String(ttlAttribute), Enabled: aws.Bool(true)},
		}); err != nil {
			return s.downError(ctx, "setting the table's time to live", err)
		}
	}
	if stream && !streams {
		_, err := s.client.UpdateTable(ctx, &dynamodb.UpdateTableInput{TableName: aws.String(s.table), StreamSpecification: newImages})
		return s.downError(ctx, "adding a stream to the table", err)
	}
	return nil
}

var newImages = &types.StreamSpecification{StreamEnabled: aws.Bool(true), StreamViewType: types.StreamViewTypeNewImage}

// create creates the table if it does not exist.
func (s *Store) create(ctx context.Context, stream bool) error {
	text := func(name string) types.AttributeDefinition {
		return types.AttributeDefinition{AttributeName: aws.String(name), AttributeType: types.ScalarAttributeTypeS}
	}
	schema := func(hash, sort string) []types.KeySchemaElement {
		return []types.KeySchemaElement{
			{AttributeName: aws.String(hash), KeyType: types.KeyTypeHash}, {AttributeName: aws.String(sort), KeyType: types.KeyTypeRange},
		}
	}
	in := &dynamodb.CreateTableInput{
		TableName: aws.String(s.table), BillingMode: types.BillingModePayPerRequest,
		AttributeDefinitions: []types.AttributeDefinition{text("PK"), text("SK"), text("GSI1PK"), text("GSI1SK")},
		KeySchema:            schema("PK", "SK"),
		GlobalSecondaryIndexes: []types.GlobalSecondaryIndex{{
			IndexName: aws.String(index), KeySchema: schema("GSI1PK", "GSI1SK"),
			Projection: &types.Projection{ProjectionType: types.ProjectionTypeAll},
		}},
	}
	if stream {
		in.StreamSpecification = newImages
	}
	_, err := s.client.CreateTable(ctx, in)
	if there := (*types.ResourceInUseException)(nil); errors.As(err, &there) {
		return nil
	}
	return err
}

// waitActive waits until the table can be used.
func (s *Store) waitActive(ctx context.Context) (*types.TableDescription, error) {
	waiter := dynamodb.NewTableExistsWaiter(s.client, func(o *dynamodb.TableExistsWaiterOptions) {
		o.MinDelay, o.MaxDelay = time.Second, 5*time.Second
	})
	out, err := waiter.WaitForOutput(ctx, &dynamodb.DescribeTableInput{TableName: aws.String(s.table)}, createLimit)
	if err != nil {
		return nil, err
	}
	return out.Table, nil
}

// expiry returns the attribute by which the table's items expire, or "" if the table's time to live is off.
func (s *Store) expiry(ctx context.Context) (string, error) {
	out, err := s.client.DescribeTimeToLive(ctx, &dynamodb.DescribeTimeToLiveInput{TableName: aws.String(s.table)})
	if err != nil {
		return "", err
	}
	switch t := out.TimeToLiveDescription; t.TimeToLiveStatus {
	case types.TimeToLiveStatusEnabled, types.TimeToLiveStatusEnabling:
		return aws.ToString(t.AttributeName), nil
	default:
		return "", nil
	}
}

// shapeDifferences describes how the keys and the index of the table differ from those that the store
// needs.
func shapeDifferences(table *types.TableDescription) (differences []string) {
	if keys := keyText(table.KeySchema, table.AttributeDefinitions); keys != tableKeys {
		differences = append(differences, "its keys are "+keys+", not "+tableKeys)
	}
	for _, i := range table.GlobalSecondaryIndexes {
		if aws.ToString(i.IndexName) != index {
			continue
		}
		if keys := keyText(i.KeySchema, table.AttributeDefinitions); keys != indexKeys {
			differences = append(differences, "the keys of its index "+index+" are "+keys+", not "+indexKeys)
		}
		if i.Projection.ProjectionType != types.ProjectionTypeAll {
			differences = append(differences, fmt.Sprintf("its index %s shows %s of the attributes, not ALL", index, i.Projection.ProjectionType))
		}
		return differences
	}
	return append(differences, "it has no index "+index)
}

// keyText formats the keys of a schema with their types, the partition key first.
func keyText(schema []types.KeySchemaElement, definitions []types.AttributeDefinition) string {
	kinds := map[string]types.ScalarAttributeType{}
	for _, d := range definitions {
		kinds[aws.ToString(d.AttributeName)] = d.AttributeType
	}
	var keys []string
	for _, k := range schema {
		name := aws.ToString(k.AttributeName)
		keys = append(keys, fmt.Sprintf("%s (%s)", name, kinds[name]))
	}
	return strings.Join(keys, ", ")
}

// expiryDifferences describes how the table's time to live differs from the one that the store needs.
func expiryDifferences(expiry string) []string {
	switch expiry {
	case ttlAttribute:
		return nil
	case "":
		return []string{"its time to live is off"}
	default:
		return []string{"its time to live is by " + expiry + ", not by " + ttlAttribute}
	}
}

// differenceError returns an error that names the differences of the table. It returns nil if there
// are no differences.
func (s *Store) differenceError(differences []string) error {
	if len(differences) == 0 {
		return nil
	}
	return fmt.Errorf("dynamodb: the table %s is of another shape: %s", s.table, strings.Join(differences, "; "))
}
