printf %s "${1:-}" > /tmp/cluster.yaml
@choice@
dhsic "$@" > /tmp/output.txt
code=$?
# What is left goes to the log of the pod, which can be read after the pod has ended.
printf '\n=== output ===\n'
cat /tmp/output.txt
printf '\n=== result ===\n'
cat /tmp/result.json 2> /dev/null
printf '\n=== exit %s ===\n' "$code"
exit "$code"
