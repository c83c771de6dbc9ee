/**
 * Shuts clients down without the pause that 5.x makes at times: its thread for the events of channels may sleep for three
 * seconds before it looks whether its client is still there, and a shutdown waits for it.
 */
final class Closing {
    private static final int PAUSE_MS = 20;

    private Closing() {
    }

    /** Something that shuts a client down, now or in the end. */
    interface Step<E extends Exception> {
        void take() throws E;
    }

    /** Take a step, and wake such threads whenever it waits for one. */
    static <E extends Exception> void promptly(Step<E> step) throws E {
        Thread caller = Thread.currentThread();
        Thread helper = new Thread(() -> wakeFor(caller), "closing");
        helper.setDaemon(true);
        helper.start();
        try {
            step.take();
        } finally {
            helper.interrupt();
        }
    }

    private static void wakeFor(Thread caller) {
        try {
            while (true) {
                Thread.sleep(PAUSE_MS);
                if (waitsForService(caller)) {
                    wake();
                }
            }
        } catch (InterruptedException ended) {
            Thread.currentThread().interrupt();
        }
    }

    private static boolean waitsForService(Thread caller) {
        for (StackTraceElement frame : caller.getStackTrace()) {
            if (frame.getClassName().endsWith(".ServiceThread") && frame.getMethodName().equals("shutdown")) {
                return true;
            }
        }
        return false;
    }

    /** One that is not about to end looks once more, and sleeps again. */
    private static void wake() {
        ThreadGroup all = Thread.currentThread().getThreadGroup();
        while (all.getParent() != null) {
            all = all.getParent();
        }
        Thread[] threads = new Thread[2 * all.activeCount() + 8];
        int count = all.enumerate(threads);
        for (int i = 0; i < count; i++) {
            if (threads[i].getName().startsWith("NettyEventExecutor")
                && threads[i].getState() == Thread.State.TIMED_WAITING) {
                threads[i].interrupt();
            }
        }
    }
}
