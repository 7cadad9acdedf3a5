package cases

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"time"
)

// clientName is the first argument of this program when it runs as the client of HTTP cases, in the server's
// sandbox.
const clientName = "stepfall-http-client"

// Main runs the client of HTTP cases and exits if the program was started as one. Otherwise it does nothing.
func Main() {
	if len(os.Args) < 3 || os.Args[1] != clientName {
		return
	}
	if err := client(os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

const (
	// startTimeout limits the time until a server listens.
	startTimeout = 20 * time.Second
	maxBody      = 4 << 20
)

// client starts the server, sends the requests, and writes the responses to standard output.
func client(argv []string) error {
	data, err := os.ReadFile(httpFile)
	if err != nil {
		return err
	}
	var requests []Request
	if err := json.Unmarshal(data, &requests); err != nil {
		return err
	}
	port, err := freePort()
	if err != nil {
		return err
	}
	server := exec.CommandContext(context.Background(), argv[0], argv[1:]...)
	server.Env = append(os.Environ(), "PORT="+port)
	// Standard output is reserved for the client's result.
	server.Stdout, server.Stderr = os.Stderr, os.Stderr
	if err := server.Start(); err != nil {
		return err
	}
	defer func() { _ = server.Process.Kill() }()
	ended := make(chan error, 1)
	go func() { ended <- server.Wait() }()
	if err := awaitServer(port, ended); err != nil {
		return err
	}
	responses := make([]Response, 0, len(requests))
	for i := range requests {
		response, err := requests[i].send(port)
		if err != nil {
			return fmt.Errorf("request %d: %w", i+1, err)
		}
		responses = append(responses, *response)
	}
	return json.NewEncoder(os.Stdout).Encode(responses)
}

func freePort() (string, error) {
	var config net.ListenConfig
	listener, err := config.Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	_, port, err := net.SplitHostPort(listener.Addr().String())
	return port, errors.Join(err, listener.Close())
}

func awaitServer(port string, ended <-chan error) error {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	var dialer net.Dialer
	for {
		connection, err := dialer.DialContext(ctx, "tcp", "127.0.0.1:"+port)
		if err == nil {
			return connection.Close()
		}
		select {
		case err := <-ended:
			return fmt.Errorf("the server ended before it listened at $PORT: %w", errors.Join(err, errors.New("no request was sent")))
		case <-ctx.Done():
			return errors.New("the server did not listen at $PORT in time")
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func (r *Request) send(port string) (*Response, error) {
	request, err := http.NewRequestWithContext(context.Background(), cmp.Or(r.Method, http.MethodGet), "http://127.0.0.1:"+port+"/"+strings.TrimPrefix(r.Path, "/"), bytes.NewReader([]byte(r.Body)))
	if err != nil {
		return nil, err
	}
	for name, value := range r.Header {
		request.Header.Set(name, value)
	}
	direct := &http.Client{
		Transport:     &http.Transport{},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	defer direct.CloseIdleConnections()
	got, err := direct.Do(request)
	if err != nil {
		return nil, err
	}
	defer got.Body.Close()
	data, err := io.ReadAll(io.LimitReader(got.Body, maxBody))
	if err != nil {
		return nil, err
	}
	body := string(data)
	response := &Response{Status: got.StatusCode, Header: map[string]string{}, Body: &body}
	for name := range got.Header {
		response.Header[strings.ToLower(name)] = got.Header.Get(name)
	}
	return response, nil
}
