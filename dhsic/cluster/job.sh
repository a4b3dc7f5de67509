@head@

export OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
# Where the command was typed, since paths of data may be relative to it.
cd -- @directory@ || exit 1
@prologue@
task=${DHSIC_TASK:-@index@}
folder=@folder@
@choice@
echo >> "$folder/turns"
trap cancelled=1 TERM
@python@ -m dhsic "$@" > "$folder/output.txt" 2>> "$folder/error.log" &
command=$!
@timer@
# Until the command ends, or the time is over; after an interrupted 'wait -n' Bash 5.2 gives the
# status of a command as -1.
while [[ -z ${cancelled:-} ]] && kill -0 "$command" && kill -0 "${timer:-$command}"; do
    sleep 1
done 2> /dev/null
# A cancelled job sends SIGTERM to the command by itself, and a second one would keep it from
# cleaning. Where the command has ended, its number is nobody's and 'kill' fails.
[[ -n ${cancelled:-} ]] || { kill -TERM "$command" && over=1; } 2> /dev/null
wait "$command"
code=$?
((code == 143)) && { wait "$command"; code=$?; }
[[ -z ${timer:-} ]] || kill "$timer" 2> /dev/null
# 130 is a command that was interrupted; one that gets nowhere must not queue itself for ever.
if [[ -n ${over:-} && -z ${cancelled:-} ]] &&
    ((code == 130 && $(wc -l < "$folder/turns") <= 50)); then
    @again@ && exit "$code"
fi
echo "$code" > "$folder/exit"
exit "$code"
