import java.io.BufferedReader;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.InputStreamReader;
import java.net.Socket;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Set;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.common.message.FindCoordinatorRequestData;
import org.apache.kafka.common.message.OffsetCommitRequestData;
import org.apache.kafka.common.message.StreamsGroupHeartbeatRequestData;
import org.apache.kafka.common.message.StreamsGroupHeartbeatResponseData;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.requests.AbstractRequest;
import org.apache.kafka.common.requests.AbstractResponse;
import org.apache.kafka.common.requests.FindCoordinatorRequest;
import org.apache.kafka.common.requests.FindCoordinatorResponse;
import org.apache.kafka.common.requests.OffsetCommitRequest;
import org.apache.kafka.common.requests.OffsetCommitResponse;
import org.apache.kafka.common.requests.RequestHeader;
import org.apache.kafka.common.requests.StreamsGroupHeartbeatRequest;
import org.apache.kafka.common.requests.StreamsGroupHeartbeatResponse;

/**
 * Is a member of a streams group, whose tasks read one topic, through Kafka's own requests.
 *
 * Arguments: the broker's host and port, the group, the topic. Prints `assigned` once it has its tasks, then commits for
 * each line of standard input, a partition and an offset, and answers `committed`. The line `leave` is answered by
 * `left`; at the end of the input it leaves too.
 */
public final class StreamsMember {
    private static final String MEMBER = "streams-member-0";
    private static final String LEAVE = "leave";
    private static final Set<Short> LOADING = Set.of(
        Errors.COORDINATOR_LOAD_IN_PROGRESS.code(), Errors.COORDINATOR_NOT_AVAILABLE.code(),
        Errors.NOT_COORDINATOR.code());
    private static final int BETWEEN_BEATS_MS = 100;

    private final DataOutputStream requests;
    private final DataInputStream answers;
    private final String group;
    private final String topic;
    private int epoch;
    private boolean isTold;
    private List<StreamsGroupHeartbeatResponseData.TaskIds> tasks;

    private StreamsMember(Socket socket, String group, String topic) throws Exception {
        this.requests = new DataOutputStream(socket.getOutputStream());
        this.answers = new DataInputStream(socket.getInputStream());
        this.group = group;
        this.topic = topic;
    }

    public static void main(String[] arguments) throws Exception {
        int colon = arguments[0].lastIndexOf(':');
        String host = arguments[0].substring(0, colon);
        try (Socket socket = new Socket(host, Integer.parseInt(arguments[0].substring(colon + 1)))) {
            StreamsMember member = new StreamsMember(socket, arguments[1], arguments[2]);
            member.findCoordinator();
            member.live();
        }
    }

    /** Waits until the broker coordinates the group, for which it makes the topic of offsets if there is none. */
    private void findCoordinator() throws Exception {
        FindCoordinatorRequestData data = new FindCoordinatorRequestData()
            .setKeyType(FindCoordinatorRequest.CoordinatorType.GROUP.id())
            .setCoordinatorKeys(List.of(group));
        while (true) {
            AbstractResponse answer = ask(ApiKeys.FIND_COORDINATOR, new FindCoordinatorRequest.Builder(data));
            if (((FindCoordinatorResponse) answer).data().coordinators().get(0).errorCode() == 0) {
                return;
            }
            Thread.sleep(BETWEEN_BEATS_MS);
        }
    }

    private void live() throws Exception {
        BlockingQueue<String> lines = new LinkedBlockingQueue<>();
        Thread reader = new Thread(() -> {
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8)).lines().forEach(lines::add);
            lines.add(LEAVE);
        });
        reader.setDaemon(true);
        reader.start();
        while (true) {
            beat(false);
            String line = lines.poll(BETWEEN_BEATS_MS, TimeUnit.MILLISECONDS);
            if (LEAVE.equals(line)) {
                beat(true);
                System.out.println("left");
                return;
            }
            if (line != null) {
                String[] parts = line.split(" ");
                commit(Integer.parseInt(parts[0]), Long.parseLong(parts[1]));
                System.out.println("committed");
            }
        }
    }

    private void beat(boolean isLeaving) throws Exception {
        boolean isFirst = epoch == 0;
        StreamsGroupHeartbeatRequestData data = new StreamsGroupHeartbeatRequestData()
            .setGroupId(group)
            .setMemberId(MEMBER)
            .setMemberEpoch(isLeaving ? -1 : epoch);
        if (isFirst) {
            data.setProcessId("process-0").setRebalanceTimeoutMs(10_000).setClientTags(List.of())
                .setTopology(new StreamsGroupHeartbeatRequestData.Topology().setEpoch(1).setSubtopologies(List.of(
                    new StreamsGroupHeartbeatRequestData.Subtopology().setSubtopologyId("0").setSourceTopics(List.of(topic)))));
        }
        if (!isLeaving && (isFirst || tasks != null)) {
            data.setActiveTasks(tasks == null ? List.of() : tasks.stream().map(each ->
                    new StreamsGroupHeartbeatRequestData.TaskIds()
                        .setSubtopologyId(each.subtopologyId()).setPartitions(each.partitions())).toList())
                .setStandbyTasks(List.of()).setWarmupTasks(List.of());
        }
        AbstractResponse answer = ask(ApiKeys.STREAMS_GROUP_HEARTBEAT,
            new StreamsGroupHeartbeatRequest.Builder(data));
        StreamsGroupHeartbeatResponseData said = ((StreamsGroupHeartbeatResponse) answer).data();
        if (isFirst && LOADING.contains(said.errorCode())) {
            return;
        }
        if (said.errorCode() != 0) {
            throw new IllegalStateException(said.errorCode() + " " + said.errorMessage());
        }
        epoch = said.memberEpoch();
        if (said.activeTasks() != null) {
            tasks = said.activeTasks();
        } else if (tasks != null && !tasks.isEmpty() && !isTold) {
            isTold = true;  // the broker has heard which tasks are had
            System.out.println("assigned");
        }
    }

    private void commit(int partition, long offset) throws Exception {
        OffsetCommitRequestData data = new OffsetCommitRequestData()
            .setGroupId(group)
            .setMemberId(MEMBER)
            .setGenerationIdOrMemberEpoch(epoch)
            .setTopics(List.of(new OffsetCommitRequestData.OffsetCommitRequestTopic().setName(topic).setPartitions(
                List.of(new OffsetCommitRequestData.OffsetCommitRequestPartition()
                    .setPartitionIndex(partition).setCommittedOffset(offset).setCommittedMetadata("")))));
        AbstractResponse answer = ask(ApiKeys.OFFSET_COMMIT, OffsetCommitRequest.Builder.forTopicNames(data));
        short code = ((OffsetCommitResponse) answer).data().topics().get(0).partitions().get(0).errorCode();
        if (code != 0) {
            throw new IllegalStateException("the commit was refused with " + code);
        }
    }

    private AbstractResponse ask(ApiKeys key, AbstractRequest.Builder<?> builder) throws Exception {
        short version = builder.latestAllowedVersion();
        RequestHeader header = new RequestHeader(key, version, "streams-client", 1);
        ByteBuffer request = builder.build(version).serializeWithHeader(header);
        requests.writeInt(request.remaining());
        requests.write(request.array(), request.arrayOffset() + request.position(), request.remaining());
        requests.flush();
        byte[] answer = new byte[answers.readInt()];
        answers.readFully(answer);
        return AbstractResponse.parseResponse(ByteBuffer.wrap(answer), header);
    }
}
