package dynamostore

import (
	"cmp"
	"context"
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/smithy-go/logging"

	"poold/internal/history"
)

const (
	dialLimit = 2 * time.Second
	// callLimit is the limit of one attempt. A service that takes 3 s a call is slow, not dead.
	callLimit = 5 * time.Second

	// emulated is the region of an endpoint without a region, because the SDK needs one.
	emulated = "us-east-1"
)

// Options are the options of Open.
type Options struct {
	Table     string        // "" = CaptchaSolves
	Endpoint  string        // of an emulator or of a private link, as http://host:port; "" = that of the region
	Region    string        // "" = from the environment or AWS's shared files
	Keep      time.Duration // of a record, from its end on; 0 = 90 days
	KeepAudit time.Duration // of an entry of the audit, and of a day's figures by key; 0 = 90 days
}

var (
	_ history.Store = (*Store)(nil)
	_ history.Audit = (*Store)(nil)
)

// Store is a history.Store and a history.Audit over one table. The figures of days never expire, except those by key.
type Store struct {
	client          *dynamodb.Client
	transport       *http.Transport
	table           string
	keep, keepAudit time.Duration
}

// Open reads AWS's configuration from the environment and the shared files. It does not connect. The caller closes
// the store.
func Open(ctx context.Context, o Options) (*Store, error) {
	var load []func(*config.LoadOptions) error
	if o.Region != "" {
		load = append(load, config.WithRegion(o.Region))
	}
	c, err := config.LoadDefaultConfig(ctx, load...)
	if err != nil {
		if missing := (config.SharedConfigProfileNotExistError{}); errors.As(err, &missing) {
			return nil, errors.New("dynamodb: the AWS profile " + missing.Profile + " does not exist")
		}
		return nil, errors.New("dynamodb: AWS's configuration, in the environment or in its shared files, cannot be read")
	}
	if c.Region == "" {
		if o.Endpoint == "" {
			return nil, errors.New("dynamodb: no region is known: set the region of the history, or AWS_REGION")
		}
		c.Region = emulated
	}
	c.Credentials = credentials{c.Credentials}
	const quarter = 90 * 24 * time.Hour
	s := &Store{
		transport: transport(), table: cmp.Or(o.Table, "CaptchaSolves"),
		keep: cmp.Or(o.Keep, quarter), keepAudit: cmp.Or(o.KeepAudit, quarter),
	}
	s.client = dynamodb.NewFromConfig(c, func(d *dynamodb.Options) {
		d.HTTPClient = &http.Client{Transport: s.transport, Timeout: callLimit, CheckRedirect: stay}
		d.Retryer = retryer{}
		d.Logger = logging.Nop{}
		if o.Endpoint != "" {
			d.BaseEndpoint = aws.String(o.Endpoint)
		}
	})
	return s, nil
}

// Close closes the connections. No call may be running.
func (s *Store) Close() { s.transport.CloseIdleConnections() }

// transport gives up on a dead endpoint within some seconds.
func transport() *http.Transport {
	return &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         (&net.Dialer{Timeout: dialLimit}).DialContext,
		TLSHandshakeTimeout: dialLimit,
		MaxIdleConnsPerHost: 10,
		IdleConnTimeout:     30 * time.Second,
	}
}

// stay follows no redirect, because a signed request is valid for one host.
func stay(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// credentials returns errNoCredentials if there are none. The SDK's error would name the places that it searched.
type credentials struct{ aws.CredentialsProvider }

func (c credentials) Retrieve(ctx context.Context) (aws.Credentials, error) {
	found, err := c.CredentialsProvider.Retrieve(ctx)
	switch {
	case err == nil:
		return found, nil
	case ctx.Err() != nil:
		return aws.Credentials{}, ctx.Err()
	default:
		return aws.Credentials{}, errNoCredentials
	}
}
