package aftershock;

/** What the program of a job that reads does with its rows. In a session cluster, the task managers write them. */
interface JobRows {
    /** Does what is due every few milliseconds. */
    void flush();

    /** Reports the progress of the job. */
    void progress();

    /** Writes what is left. Call it when the job has ended. */
    void close();
}
